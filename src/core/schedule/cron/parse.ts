import { carillonError } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { type DayRule, parseDays } from './days.ts';
import { eachItem, FIELDS, type FieldKind, fieldError, itemValues } from './field.ts';
import { chooseHashed } from './hash.ts';

/** A cron expression, read. */
export interface CronFields {
  /** One byte per value, 1 where it matches: 60, 60 and 24 of them. */
  seconds: Uint8Array;
  minutes: Uint8Array;
  hours: Uint8Array;
  /** Bit m for month m, 1 to 12. */
  months: number;
  days: DayRule;
  /** One byte per year from 1970 on; undefined where every year matches. */
  years: Uint8Array | undefined;
  /** Whether neither second, minute nor hour starts with `*`. Decides what happens where clocks change. */
  fixedTime: boolean;
}

/** The macros of Vixie cron, in any case. All are times of a calendar; none is counted from a start. */
const MACROS: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

const ORDER = ['second', 'minute', 'hour', 'dayOfMonth', 'month', 'dayOfWeek', 'year'] as const;

/**
 * Splits a cron expression into its seven fields: 5 fields (minute, hour, day of month, month, day of week) get a second `0`,
 * 5 and 6 fields (second first) get a year `*`; a macro stands for its fields; each `H` is written as the values that the key
 * chooses. Two expressions with equal results have the same occurrences in the same zone.
 *
 * @param seed the job's key, which `H` is chosen by
 * @throws CarillonError `schedule-invalid`
 */
export function cronFields(expression: string, seed: string | undefined): string[] {
  const given = splitFields(expression);
  const fields = [...(given.length === 5 ? ['0'] : []), ...given, ...(given.length < 7 ? ['*'] : [])];
  // Most expressions have no H, and this is done for every job that is loaded.
  if (!/(?:^|[\s,])h/i.test(expression)) return fields;
  return fields.map((text, index) => chooseHashed(FIELDS[ORDER[index]!], text, seed));
}

/**
 * Reads the seven fields of an expression. Reading is strict: what is not understood to the last character is refused.
 *
 * @throws CarillonError `schedule-invalid`, naming field and token
 */
export function parseCron(fields: readonly string[]): CronFields {
  const [second, minute, hour, dayOfMonth, month, dayOfWeek, year] = fields as [
    string,
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  return {
    seconds: table(FIELDS.second, second),
    minutes: table(FIELDS.minute, minute),
    hours: table(FIELDS.hour, hour),
    months: table(FIELDS.month, month).reduce((mask, set, index) => mask | (set << (index + 1)), 0),
    days: parseDays(dayOfMonth, dayOfWeek),
    years: year === '*' ? undefined : table(FIELDS.year, year),
    fixedTime: ![second, minute, hour].some((text) => text.startsWith('*')),
  };
}

function splitFields(expression: unknown): string[] {
  const refuse = (reason: string, token = ''): never => {
    throw carillonError('schedule-invalid', reason, { field: 'schedule.expression', token });
  };
  if (typeof expression !== 'string') return refuse('the cron expression must be a text');
  if (expression.length > LIMITS.cronExpressionChars) {
    return refuse(
      `the cron expression is longer than ${LIMITS.cronExpressionChars} characters`,
      `${expression.slice(0, 40)}…`,
    );
  }
  const text = expression.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, '');
  if (text.startsWith('@')) {
    const expanded = MACROS[text.toLowerCase()];
    return expanded === undefined ? refuse(unknownMacro(text), text.slice(0, 40)) : expanded.split(' ');
  }
  const fields = text === '' ? [] : text.split(/[ \t\r\n]+/);
  if (fields.length < 5 || fields.length > 7) {
    refuse(
      `the cron expression has ${fields.length} fields; use 5 (minute hour day-of-month month day-of-week), 6 (second first) or 7 (year last)`,
      text.slice(0, 40),
    );
  }
  return fields;
}

function unknownMacro(text: string): string {
  const shown = text.slice(0, 40);
  if (/^@every\b/i.test(text)) return `"${shown}" is not a cron expression; use a schedule of kind "rate" with everyMs`;
  if (/^@reboot$/i.test(text)) return `"${shown}" has no meaning here: there is no start of a machine to wait for`;
  return `"${shown}" is not a known macro; use one of ${Object.keys(MACROS).join(', ')}`;
}

/** One byte per value of the field, 1 where an item of its list names it. */
function table(kind: FieldKind, text: string): Uint8Array {
  const values = new Uint8Array(kind.max - kind.min + 1);
  eachItem(kind, text, (item) => {
    if (item.startsWith('?')) throw fieldError(kind, item, 'may stand only in a day field; use *');
    for (const value of itemValues(kind, item)) values[value - kind.min] = 1;
  });
  return values;
}
