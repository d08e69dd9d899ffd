import type { CarillonError } from '../../errors.ts';
import { carillonError } from '../../errors.ts';

/** What one field of an expression may hold. */
export interface FieldKind {
  name: string;
  min: number;
  max: number;
  /** Number of values before a reversed range wraps; 0 where it may not (years). */
  cycle: number;
  /** Three-letter names in any case; the first stands for `min`. */
  names?: readonly string[];
  /** Greatest value that `H` without a range may pick; 0 where `H` is refused. */
  hashMax: number;
}

const MONTH_NAMES = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const WEEKDAY_NAMES = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

/**
 * The seven fields. The week ends on Saturday (6), so that `1/2` in the day of the week is Monday, Wednesday, Friday; 7 is
 * read as 0. `H` picks a day that every month has.
 */
export const FIELDS = {
  second: { name: 'second', min: 0, max: 59, cycle: 60, hashMax: 59 },
  minute: { name: 'minute', min: 0, max: 59, cycle: 60, hashMax: 59 },
  hour: { name: 'hour', min: 0, max: 23, cycle: 24, hashMax: 23 },
  dayOfMonth: { name: 'day-of-month', min: 1, max: 31, cycle: 31, hashMax: 28 },
  month: { name: 'month', min: 1, max: 12, cycle: 12, names: MONTH_NAMES, hashMax: 12 },
  dayOfWeek: { name: 'day-of-week', min: 0, max: 6, cycle: 7, names: WEEKDAY_NAMES, hashMax: 6 },
  year: { name: 'year', min: 1970, max: 9999, cycle: 0, hashMax: 0 },
} as const satisfies Record<string, FieldKind>;

/** A refusal that names the field and the token. */
export function fieldError(kind: FieldKind, token: string, reason: string): CarillonError {
  const shown = token.length > 40 ? `${token.slice(0, 40)}…` : token;
  return carillonError('schedule-invalid', `${kind.name} field: "${shown}" ${reason}`, {
    field: 'schedule.expression',
    token: shown,
  });
}

/** Calls `take` with each item of a comma list; an empty item is refused. */
export function eachItem(kind: FieldKind, text: string, take: (item: string) => void): void {
  for (const item of text.split(',')) {
    if (item === '') throw fieldError(kind, text, 'has an empty item in its list');
    take(item);
  }
}

/**
 * The values of one item: `*`, `a`, `a-b`, all with or without a step `/n`; `a/n` runs from a to the field's end. Steps start
 * anew in every item. A reversed range wraps (`22-2` in the hour), and its step runs on over the wrap.
 */
export function itemValues(kind: FieldKind, item: string): number[] {
  const [base, stepText, ...more] = item.split('/');
  if (more.length > 0) throw fieldError(kind, item, 'has more than one step');
  const step = stepText === undefined ? undefined : stepOf(kind, item, stepText, kind.max - kind.min + 1);
  if (base === '*') return stepped(kind.min, kind.max, step ?? 1);
  const [first, last] = rangeOf(kind, item, base!);
  if (last !== undefined) return wrapped(kind, stepped(first, last, step ?? 1));
  return step === undefined ? [first] : stepped(first, kind.max, step);
}

/** `a` or `a-b` as numbers; b is given past the field's end when the range wraps (`22-2` in the hour is 22 to 26). */
export function rangeOf(kind: FieldKind, item: string, text: string): [first: number, last: number | undefined] {
  const [firstText, lastText, ...more] = text.split('-');
  if (more.length > 0) throw fieldError(kind, item, 'is not a range a-b');
  const first = readValue(kind, item, firstText!);
  if (lastText === undefined) return [first, undefined];
  const last = readValue(kind, item, lastText);
  // "5-7" in the day of the week ends on the Sunday after; "0-7" is the whole week, "7-7" a Sunday.
  if (kind === FIELDS.dayOfWeek && Number(lastText) === 7) return [first, Number(firstText) === 7 ? 0 : 7];
  if (last >= first) return [first, last];
  if (kind.cycle === 0) throw fieldError(kind, item, 'is a range that ends before it begins');
  return [first, last + kind.cycle];
}

/** A number of the field or one of its names. */
export function readValue(kind: FieldKind, item: string, text: string): number {
  const named = kind.names?.indexOf(text.toLowerCase()) ?? -1;
  if (named >= 0) return kind.min + named;
  if (!/^[0-9]{1,4}$/.test(text)) throw fieldError(kind, item, `cannot be read; ${expected(kind)}`);
  const value = Number(text);
  if (kind === FIELDS.dayOfWeek && value === 7) return 0;
  if (value < kind.min || value > kind.max) throw fieldError(kind, item, `is out of range; ${expected(kind)}`);
  return value;
}

function expected(kind: FieldKind): string {
  const values = `use ${kind.min} to ${kind === FIELDS.dayOfWeek ? '7' : kind.max}`;
  return kind.names ? `${values} or ${kind.names[0]!.toUpperCase()} to ${kind.names.at(-1)!.toUpperCase()}` : values;
}

/** A step, 1 to the given greatest. */
export function stepOf(kind: FieldKind, item: string, text: string, max: number): number {
  const step = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0;
  if (step < 1) throw fieldError(kind, item, 'has a step that is not a whole number of at least 1');
  if (step > max) throw fieldError(kind, item, `has a step longer than the field (${max} values)`);
  return step;
}

export function stepped(first: number, last: number, step: number): number[] {
  const values: number[] = [];
  for (let value = first; value <= last; value += step) values.push(value);
  return values;
}

/** Brings values past the field's end back to its beginning. */
export function wrapped(kind: FieldKind, values: number[]): number[] {
  return values.map((value) => (value > kind.max ? value - kind.cycle : value));
}
