import { eachItem, FIELDS, fieldError, itemValues, readValue } from './field.ts';

/**
 * The days of a month that two day fields name, as a function of nothing but the month's length and the weekday of its first
 * day: 28 kinds of month. Bit d - 1 of a mask stands for day d, so a mask has 31 bits and is never negative.
 */
export interface DayRule {
  /** Mask of a month of `length` days (28 to 31) whose first day is `firstWeekday` (0 = Sunday). */
  maskOf(firstWeekday: number, length: number): number;
}

const { dayOfMonth, dayOfWeek } = FIELDS;

/**
 * Reads the two day fields. Both restricted (their text starts neither with `*` nor with `?`): a day matches either;
 * otherwise it must match both. This is the rule of Vixie cron, to the letter: a step on a star leaves the field unrestricted.
 *
 * Day of month: values, `L` (last day), `L-n` (n days before it), `nW` (Monday to Friday nearest to day n, inside the month;
 * a month shorter than n days is skipped), `LW` (last Monday to Friday). Day of week: values, `d#n` (n-th of the month),
 * `dL` (last of the month). The special forms are those of Quartz, but numbers of weekdays are cron's (0 and 7 = Sunday).
 */
export function parseDays(dateText: string, weekdayText: string): DayRule {
  const dates = parseDates(dateText);
  const weekdays = parseWeekdays(weekdayText);
  const either = isRestricted(dateText) && isRestricted(weekdayText);
  const known = new Int32Array(7 * 4).fill(-1);
  return {
    maskOf(firstWeekday, length) {
      const kind = firstWeekday * 4 + length - 28;
      if (known[kind]! < 0) {
        const a = dates(firstWeekday, length);
        const b = weekdays(firstWeekday, length);
        known[kind] = (either ? a | b : a & b) & everyDay(length);
      }
      return known[kind]!;
    },
  };
}

type MonthMask = (firstWeekday: number, length: number) => number;

function isRestricted(text: string): boolean {
  return !text.startsWith('*') && !text.startsWith('?');
}

function everyDay(length: number): number {
  return length === 31 ? 0x7fff_ffff : (1 << length) - 1;
}

function bit(day: number): number {
  return 1 << (day - 1);
}

function parseDates(text: string): MonthMask {
  if (text === '?') return (_, length) => everyDay(length);
  let plain = 0;
  const special: MonthMask[] = [];
  eachItem(dayOfMonth, text, (item) => {
    const last = /^l(?:-([0-9]{1,2}))?$/i.exec(item);
    const nearest = /^([0-9]{1,2})w$/i.exec(item);
    if (last) {
      const back = Number(last[1] ?? 0);
      if (back > 30) throw fieldError(dayOfMonth, item, 'goes back further than any month');
      special.push((_, length) => (length > back ? bit(length - back) : 0));
    } else if (/^lw$/i.test(item)) {
      special.push((firstWeekday, length) => bit(nearestWeekday(length, firstWeekday, length)));
    } else if (nearest) {
      const day = readValue(dayOfMonth, item, nearest[1]!);
      special.push((firstWeekday, length) => (day <= length ? bit(nearestWeekday(day, firstWeekday, length)) : 0));
    } else {
      for (const day of itemValues(dayOfMonth, item)) plain |= bit(day);
    }
  });
  return (firstWeekday, length) => special.reduce((mask, days) => mask | days(firstWeekday, length), plain);
}

/** The day from Monday to Friday nearest to a day, in the same month: a Saturday the 1st moves to Monday the 3rd. */
function nearestWeekday(day: number, firstWeekday: number, length: number): number {
  const weekday = (firstWeekday + day - 1) % 7;
  if (weekday === 6) return day > 1 ? day - 1 : day + 2;
  if (weekday === 0) return day < length ? day + 1 : day - 2;
  return day;
}

function parseWeekdays(text: string): MonthMask {
  if (text === '?') return (_, length) => everyDay(length);
  let plain = 0;
  const special: MonthMask[] = [];
  eachItem(dayOfWeek, text, (item) => {
    const nth = /^([^#]*)#(.*)$/.exec(item);
    const last = /^(.+)l$/i.exec(item);
    if (nth) {
      const weekday = readValue(dayOfWeek, item, nth[1]!);
      if (!/^[1-5]$/.test(nth[2]!)) throw fieldError(dayOfWeek, item, 'names no week of a month; use #1 to #5');
      const week = Number(nth[2]);
      special.push((firstWeekday, length) => {
        const day = firstOf(weekday, firstWeekday) + (week - 1) * 7;
        return day <= length ? bit(day) : 0;
      });
    } else if (last) {
      const weekday = readValue(dayOfWeek, item, last[1]!);
      special.push((firstWeekday, length) => {
        const day = firstOf(weekday, firstWeekday) + 28;
        return bit(day <= length ? day : day - 7);
      });
    } else if (/^l$/i.test(item)) {
      throw fieldError(dayOfWeek, item, 'needs a weekday: 6L is the last Saturday of the month, 6 every Saturday');
    } else {
      for (const weekday of itemValues(dayOfWeek, item)) plain |= 1 << weekday;
    }
  });
  return (firstWeekday, length) => {
    let mask = 0;
    for (let day = 1; day <= length; day++) {
      if ((plain >> ((firstWeekday + day - 1) % 7)) & 1) mask |= bit(day);
    }
    return special.reduce((all, days) => all | days(firstWeekday, length), mask);
  };
}

/** First day of the month that is a given weekday, 1 to 7. */
function firstOf(weekday: number, firstWeekday: number): number {
  return ((weekday - firstWeekday + 7) % 7) + 1;
}
