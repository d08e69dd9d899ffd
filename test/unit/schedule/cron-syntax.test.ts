import { describe, expect, test } from 'vitest';
import { compileCron } from '../../../src/core/schedule/cron/compile.ts';
import { nextInstants } from './case-file.ts';

function next(expression: string, after: string, n: number, zone = 'UTC'): string[] {
  return nextInstants({ kind: 'cron', expression, zone }, after, n);
}

/** Dates only, of schedules that fire once a day. */
function dates(expression: string, after: string, n: number): string[] {
  return next(expression, after, n).map((at) => at.slice(0, 10));
}

describe('day of month', () => {
  test('L, lists with L, L-n in months that are long enough', () => {
    expect(dates('0 0 15,L * *', '2027-02-01T00:00:00Z', 4)).toEqual([
      '2027-02-15',
      '2027-02-28',
      '2027-03-15',
      '2027-03-31',
    ]);
    expect(dates('0 0 L-29 * *', '2027-01-01T12:00:00Z', 3)).toEqual(['2027-01-02', '2027-03-02', '2027-04-01']);
    expect(dates('0 0 L-28 2 *', '2027-01-01T00:00:00Z', 2)).toEqual(['2028-02-01', '2032-02-01']);
  });

  test('LW and nW stay in the month', () => {
    // 31 January 2027 and 28 February 2027 are Sundays.
    expect(dates('0 0 LW * *', '2027-01-01T00:00:00Z', 3)).toEqual(['2027-01-29', '2027-02-26', '2027-03-31']);
    expect(dates('0 0 lw,15w * *', '2027-05-01T00:00:00Z', 2)).toEqual(['2027-05-14', '2027-05-31']);
  });

  test('? is a star', () => {
    expect(dates('0 0 ? * MON', '2027-01-01T00:00:00Z', 2)).toEqual(['2027-01-04', '2027-01-11']);
    expect(dates('0 0 1 * ?', '2027-01-01T00:00:00Z', 2)).toEqual(['2027-02-01', '2027-03-01']);
  });
});

describe('day of week', () => {
  test('d#n skips months without it; dL is the last', () => {
    expect(dates('0 0 * * FRI#5', '2027-01-01T00:00:00Z', 3)).toEqual(['2027-01-29', '2027-04-30', '2027-07-30']);
    expect(dates('0 0 * * 1#1,3#3', '2027-01-01T00:00:00Z', 3)).toEqual(['2027-01-04', '2027-01-20', '2027-02-01']);
    expect(dates('0 0 * * friL', '2027-01-01T00:00:00Z', 2)).toEqual(['2027-01-29', '2027-02-26']);
    expect(dates('0 0 * * 7L,0#1', '2027-01-01T00:00:00Z', 2)).toEqual(['2027-01-03', '2027-01-31']);
  });

  test('the week ends on Saturday: 1/2 is Monday, Wednesday, Friday', () => {
    expect(dates('0 0 * * 1/2', '2027-01-03T00:00:00Z', 4)).toEqual([
      '2027-01-04',
      '2027-01-06',
      '2027-01-08',
      '2027-01-11',
    ]);
  });

  test.each([['0-7'], ['1-7'], ['*'], ['SUN-SAT'], ['*/1'], ['sun-07'], ['07-6']])('%s is every day', (field) => {
    expect(dates(`0 0 * * ${field}`, '2027-01-01T12:00:00Z', 8)).toHaveLength(8);
    expect(dates(`0 0 * * ${field}`, '2027-01-01T12:00:00Z', 8).at(-1)).toBe('2027-01-09');
  });

  test.each([['7-7'], ['7'], ['0'], ['sun'], ['0,7'], ['07'], ['07-7'], ['7-007']])('%s is Sunday', (field) => {
    expect(dates(`0 0 * * ${field}`, '2027-01-01T00:00:00Z', 2)).toEqual(['2027-01-03', '2027-01-10']);
  });
});

describe('ranges and steps', () => {
  test('a reversed range wraps, and its step runs on over the wrap', () => {
    expect(next('0 22-2/2 * * *', '2027-01-01T12:00:00Z', 4)).toEqual([
      '2027-01-01T22:00:00Z',
      '2027-01-02T00:00:00Z',
      '2027-01-02T02:00:00Z',
      '2027-01-02T22:00:00Z',
    ]);
    expect(next('50-10/7 0 * * *', '2027-01-01T00:00:00Z', 3).map((at) => at.slice(14, 16))).toEqual([
      '04',
      '50',
      '57',
    ]);
    expect(dates('0 0 1 nov-feb *', '2027-01-15T00:00:00Z', 3)).toEqual(['2027-02-01', '2027-11-01', '2027-12-01']);
    expect(dates('0 0 30-2 4 *', '2027-01-15T00:00:00Z', 3)).toEqual(['2027-04-01', '2027-04-02', '2027-04-30']);
  });

  test('years: lists, ranges, steps', () => {
    expect(dates('0 0 0 1 1 ? 2029,2031-2033/2', '2027-01-01T00:00:00Z', 4)).toEqual([
      '2029-01-01',
      '2031-01-01',
      '2033-01-01',
    ]);
    expect(dates('0 0 0 1 1 ? 2030/40', '2027-01-01T00:00:00Z', 2)).toEqual(['2030-01-01', '2070-01-01']);
    expect(dates('0 0 0 31 12 ? 9999', '2027-01-01T00:00:00Z', 2)).toEqual(['9999-12-31']);
  });

  test('the repeated hour of a schedule with a year ends with its second pass', () => {
    expect(next('0 */30 1 25 10 ? 2026', '2026-10-01T00:00:00Z', 9, 'Europe/London')).toEqual([
      '2026-10-25T00:00:00Z',
      '2026-10-25T00:30:00Z',
      '2026-10-25T01:00:00Z',
      '2026-10-25T01:30:00Z',
    ]);
  });

  test.each([
    ['90 step', '*/90 * * * *', 'minute'],
    ['range a-b-c', '0 0 1-2-3 * *', 'day-of-month'],
    ['? outside of day fields', '? * * * *', 'minute'],
    ['#6', '0 0 * * 1#6', 'day-of-week'],
    ['#0', '0 0 * * 1#0', 'day-of-week'],
    ['lone L as a weekday', '0 0 * * L', 'day-of-week'],
    ['W without a day', '0 0 W * *', 'day-of-month'],
    ['W of a range', '0 0 1-5W * *', 'day-of-month'],
    ['32W', '0 0 32W * *', 'day-of-month'],
    ['L-31', '0 0 L-31 * *', 'day-of-month'],
    ['L in the month', '0 0 1 L *', 'month'],
    ['reversed years', '0 0 0 1 1 ? 2030-2028', 'year'],
    ['two steps', '*/2/2 * * * *', 'minute'],
    ['no-break space', '0 0 * *\u00a0*', '4 fields'],
  ])('refused: %s', (_, expression, named) => {
    expect(() => next(expression, '2027-01-01T00:00:00Z', 1)).toThrow(named);
  });

  test('an expression of 10,000 characters is refused before it is read', () => {
    expect(() => next(`${'1,'.repeat(5_000)}1 * * * *`, '2027-01-01T00:00:00Z', 1)).toThrow('longer than 512');
  });
});

describe('sharing', () => {
  test('jobs with the same times share one compiled cron', () => {
    const shared = compileCron({ kind: 'cron', expression: '0 0 * * *', zone: 'Asia/Kolkata' }, undefined);
    expect(compileCron({ kind: 'cron', expression: ' @DAILY\n', zone: 'Asia/Calcutta' }, 'some key')).toBe(shared);
    expect(
      compileCron({ kind: 'cron', expression: '0 0 0 * * * *', zone: 'Asia/Kolkata', gap: 'fire-after' }, 'x'),
    ).toBe(shared);
    expect(
      compileCron({ kind: 'cron', expression: '0 0 * * *', zone: 'Asia/Kolkata', gap: 'skip' }, undefined),
    ).not.toBe(shared);
    expect(compileCron({ kind: 'cron', expression: '0 0 * * *' }, undefined)).not.toBe(shared);
  });

  test('what was not used for longest is forgotten, and comes out the same', () => {
    const first = compileCron({ kind: 'cron', expression: '1 2 3 4 *' }, undefined);
    const others = (times: number) => {
      for (let i = 0; i < times; i++) {
        const expression = `${i % 60} ${Math.floor(i / 60) % 60} ${Math.floor(i / 3600)} * * *`;
        compileCron({ kind: 'cron', expression }, undefined);
      }
    };
    others(4_096);
    expect(compileCron({ kind: 'cron', expression: '1 2 3 4 *' }, undefined)).toBe(first);
    others(9_000);
    const again = compileCron({ kind: 'cron', expression: '1 2 3 4 *' }, undefined);
    expect(again).not.toBe(first);
    expect(again.next(0)).toBe(first.next(0));
  });
});

test('29 February that must be a Sunday of a certain kind is found within the 400 years of the calendar', () => {
  // Both day fields must match: the second starts with a star. Sundays on 29 February: 2032, 2060, 2088, then 2128.
  expect(dates('0 0 29 2 */7', '2089-01-01T00:00:00Z', 2)).toEqual(['2128-02-29', '2156-02-29']);
});

test('a fixed time that no year has on that day ends in bounded steps', () => {
  // The last Sunday of March at 02:30 is skipped every year in Paris, and skipped times do not fire here.
  const never = compileCron({ kind: 'cron', expression: '30 2 * 3 7L', zone: 'Europe/Paris', gap: 'skip' }, undefined);
  expect(never.next(Date.UTC(2027, 0, 1))).toBe(-1);
});
