/**
 * The engine against cron-parser, the most used npm library: equal on everything but the listed differences. Each names the
 * case that decides it, and what cron-parser answers, so that an entry that no longer differs fails and is taken out.
 */
import { CronExpressionParser } from 'cron-parser';
import { describe, expect, test } from 'vitest';
import { formatInstant } from '../../../src/core/schedule/iso.ts';
import { CASES, type CronCheck, cronInstants } from './case-file.ts';

/** What cron-parser answers to a check: instants, or `error: …`. */
function theirs({ expr, zone, after, n }: CronCheck): string[] | string {
  try {
    const parsed = CronExpressionParser.parse(expr, { currentDate: new Date(after), tz: zone });
    return Array.from({ length: n }, () => formatInstant(parsed.next().getTime()));
  } catch (error) {
    return `error: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Case, question (expression, zone, after), and cron-parser's first instant or the beginning of its error. */
type Difference = readonly [
  id: string,
  question: readonly [string, string, string],
  cronParser: readonly [string] | string,
];

const DIFFERENCES: readonly Difference[] = [
  // Fires a skipped time as late as the gap is long, not at the first instant after it.
  ['O-CR-01', ['40 2 * * 7', 'Europe/Paris', '2027-03-27T12:00:00Z'], ['2027-03-28T01:40:00Z']],
  ['O-CR-02', ['45 2 * * *', 'America/New_York', '2027-03-14T06:30:00Z'], ['2027-03-14T07:45:00Z']],
  // Drops a skipped time where others of the same hour exist.
  ['O-CR-03', ['5,35,50 2 * * *', 'Australia/Lord_Howe', '2026-10-03T13:45:00Z'], ['2026-10-03T15:35:00Z']],
  // Takes a step on a star for a restriction: either day field instead of both.
  ['O-CR-10', ['0 7 */3 * 2', 'UTC', '2027-05-01T00:00:00Z'], ['2027-05-01T07:00:00Z']],
  ['O-CR-11', ['0 15 6 L-2 * ?', 'UTC', '2028-02-01T00:00:00Z'], 'error: Constraint error, got range NaN-2'],
  ['O-CR-12', ['0 0 7 31W * ?', 'UTC', '2027-01-01T00:00:00Z'], 'error: Invalid characters, got value: 31W'],
  ['O-CR-12', ['0 0 7 1W * ?', 'UTC', '2027-04-02T00:00:00Z'], 'error: Invalid characters, got value: 1W'],
  ['O-CR-14', ['0 0 30 2 *', 'UTC', '2027-01-01T00:00:00Z'], 'error: Invalid explicit day of month definition'],
  ['O-CR-16', ['0 8 * * sAt-SuN', 'UTC', '2027-01-07T00:00:00Z'], 'error: Invalid range: 6-0'],
  ['O-CR-16', ['0 8 * * tHu-tue', 'UTC', '2027-01-05T09:00:00Z'], 'error: Invalid range: 4-2'],
  ['O-CR-16', ['0 8 * jAn,DEC 0,7', 'UTC', '2027-01-28T00:00:00Z'], 'error: CronDayOfWeek Validation error'],
  ['O-CR-16', ['0 22-2 * * *', 'UTC', '2027-01-28T00:00:00Z'], 'error: Invalid range: 22-2'],
  // Fills in missing fields.
  ['O-CR-17', ['', 'UTC', '2027-01-01T00:00:00Z'], ['2027-01-01T00:01:00Z']],
  ['O-CR-17', ['*', 'UTC', '2027-01-01T00:00:00Z'], ['2027-01-01T00:01:00Z']],
  ['O-CR-17', ['* * *', 'UTC', '2027-01-01T00:00:00Z'], ['2027-01-01T00:01:00Z']],
  ['O-CR-17', ['* * * *', 'UTC', '2027-01-01T00:00:00Z'], ['2027-01-01T00:01:00Z']],
  ['O-CR-20', ['@Daily', 'Asia/Kathmandu', '2027-01-01T00:00:00Z'], 'error: Validation error, cannot resolve alias'],
  // Shifts the three times of a skipped hour into the hour after it.
  ['O-CR-22', ['*/20 2 * * *', 'Europe/Madrid', '2027-03-27T12:00:00Z'], ['2027-03-28T01:00:00Z']],
];

function check([expr, zone, after]: readonly [string, string, string], n: number): CronCheck {
  return { expr, zone, after, n };
}

function ours(question: CronCheck): string[] | string {
  try {
    return cronInstants(question);
  } catch (error) {
    return `error: ${error instanceof Error ? error.message : String(error)}`;
  }
}

const listed = new Set(DIFFERENCES.map(([, question]) => question.join('\n')));

describe('differences', () => {
  test('the list', () => {
    console.log(`${DIFFERENCES.length} differences from cron-parser 5.10.6`);
    expect(listed.size).toBe(DIFFERENCES.length);
    for (const [id] of DIFFERENCES) expect(CASES.some((known) => known.id === id)).toBe(true);
  });

  test.each(DIFFERENCES)('%s: %j', (_, question, cronParser) => {
    const answer = theirs(check(question, 1));
    if (typeof cronParser === 'string') expect(answer).toContain(cronParser);
    else expect(answer).toEqual(cronParser);
    expect(ours(check(question, 1))).not.toEqual(answer);
  });
});

describe('equal otherwise', () => {
  test('all checks of the cases that are not listed', () => {
    const checks = CASES.flatMap(({ input }) => input.checks ?? []);
    const others = checks.filter(({ expr, zone, after }) => !listed.has([expr, zone, after].join('\n')));
    expect(others.length).toBeGreaterThan(25);
    for (const other of others) {
      // What the runtime knows of British Columbia and Alberta in 2026 depends on the runtime (O-CR-09).
      if (!['America/Vancouver', 'America/Edmonton'].includes(other.zone)) {
        expect({ other, next: cronInstants(other) }).toEqual({ other, next: theirs(other) });
      }
    }
  });

  // Every combination of these: no reversed range (O-CR-16), no step on a star in one day field beside a restricted other
  // one (O-CR-10), no fixed time in the hours that clocks skip (O-CR-01, O-CR-22).
  const MINUTES = ['*', '0', '*/7', '5-50/9', '5,35,50', '3/20'];
  const HOURS = ['*', '9', '*/6', '0,12', '13-19'];
  const DATES = ['*', '1', '1,15', 'L', '29', '30-31', '1-7', '?'];
  const MONTHS = ['*', '6-8', 'JAN,jul', '*/5'];
  const WEEKDAYS = ['*', '1-5', 'MON', 'sun', '5L', '3#2', '0,3', '?'];
  const ZONES = ['UTC', 'Europe/Paris', 'America/New_York', 'Asia/Kolkata'];

  test.each(ZONES)('all combinations of common fields in %s', { timeout: 120_000 }, (zone) => {
    let compared = 0;
    for (const [minute, hour, date] of product(MINUTES, HOURS, DATES)) {
      for (const [month, weekday] of product(MONTHS, WEEKDAYS)) {
        const question = check([`${minute} ${hour} ${date} ${month} ${weekday}`, zone, '2027-05-03T10:17:00Z'], 2);
        const [own, other] = [cronInstants(question).join(), String(theirs(question))];
        if (own !== other) expect({ question, own }).toEqual({ question, own: other });
        compared++;
      }
    }
    expect(compared).toBe(MINUTES.length * HOURS.length * DATES.length * MONTHS.length * WEEKDAYS.length);
  });
});

/** Every combination of the values of some lists. */
function product(...lists: string[][]): string[][] {
  return lists.reduce<string[][]>((rows, list) => rows.flatMap((row) => list.map((value) => [...row, value])), [[]]);
}
