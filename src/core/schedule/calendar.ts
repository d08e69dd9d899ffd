import { carillonError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { daysFromCivil, monthLength, packedCivil, SECONDS_PER_DAY, weekdayOf } from './civil.ts';
import type { CalendarDefinition, Weekday } from './types.ts';
import { type Zone, zoneOf } from './zones/zone.ts';

const WEEKDAYS: readonly Weekday[] = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

/** A stretch of excluded time, [fromMs, untilMs). */
export interface Excluded {
  fromMs: number;
  untilMs: number;
}

/** An exclusion calendar, ready for use: which instants are excluded. */
export class Calendar {
  private readonly zone: Zone;
  private readonly days: Set<number>;
  /** Month and day as `month * 32 + day`. */
  private readonly yearly: Set<number>;
  /** First and last day, inclusive. */
  private readonly ranges: readonly (readonly [number, number])[];
  private readonly weekdays: Set<number>;
  /** Excluded seconds of every day, [from, to), ascending, neither touching nor overlapping. */
  private readonly times: readonly (readonly [number, number])[];

  /** @throws CarillonError `request-invalid` (naming the field) or `zone-unknown` */
  constructor(definition: CalendarDefinition) {
    this.zone = zoneOf(definition.zone, 'zone');
    this.days = new Set(list(definition, 'dates').map((date, i) => dayOf(date, `dates[${i}]`)));
    this.yearly = new Set(list(definition, 'yearly').map((date, i) => yearlyOf(date, `yearly[${i}]`)));
    this.ranges = list(definition, 'ranges').map((range, i) => rangeOf(range, `ranges[${i}]`));
    this.weekdays = new Set(list(definition, 'weekdays').map((name, i) => weekdayIndex(name, `weekdays[${i}]`)));
    this.times = joined(list(definition, 'times').flatMap((times, i) => timesOf(times, `times[${i}]`)));
    const rules = this.days.size + this.yearly.size + this.ranges.length + this.weekdays.size + this.times.length;
    if (rules === 0) throw invalid('', 'a calendar needs at least one of dates, yearly, ranges, weekdays, times');
    if (this.weekdays.size === 7) throw invalid('weekdays', 'all weekdays are excluded: nothing could ever fire');
    if (this.times[0]?.[0] === 0 && this.times[0][1] === SECONDS_PER_DAY) {
      throw invalid('times', 'the whole day is excluded: nothing could ever fire');
    }
  }

  /**
   * The first excluded stretch that ends after an instant and begins before a limit, or undefined. It may be a part of a
   * longer one; the rest comes with the next call. Looks at one local day after the other up to the limit.
   */
  excludedAfter(ms: number, limitMs: number): Excluded | undefined {
    const { zone } = this;
    const limit = limitMs / 1000;
    // All rules are in whole seconds of local time, so they hold within each stretch of constant offset.
    for (let second = Math.floor(ms / 1000); second < limit; second = zone.until) {
      zone.seek(second);
      const local = second + zone.offset;
      const end = Math.min(zone.until, limit) + zone.offset;
      const found = this.localAfter(local, end);
      if (found) {
        const from = Math.max(found[0] - zone.offset, zone.from);
        const until = Math.min(found[1] - zone.offset, zone.until);
        return { fromMs: from * 1000, untilMs: until * 1000 };
      }
    }
    return undefined;
  }

  /** First excluded stretch of local seconds that ends after one and begins before another. */
  private localAfter(local: number, end: number): readonly [number, number] | undefined {
    for (let day = Math.floor(local / SECONDS_PER_DAY); day * SECONDS_PER_DAY < end; day++) {
      const midnight = day * SECONDS_PER_DAY;
      if (this.isExcludedDay(day)) return [midnight, midnight + SECONDS_PER_DAY];
      for (const [from, to] of this.times) {
        if (midnight + to <= local) continue;
        return midnight + from < end ? [midnight + from, midnight + to] : undefined;
      }
    }
    return undefined;
  }

  private isExcludedDay(day: number): boolean {
    return (
      this.days.has(day) ||
      this.weekdays.has(weekdayOf(day)) ||
      (this.yearly.size > 0 && this.yearly.has(packedCivil(day) & 511)) ||
      this.ranges.some(([first, last]) => day >= first && day <= last)
    );
  }
}

function invalid(field: string, reason: string, token = '') {
  return carillonError('request-invalid', field === '' ? reason : `${field}: ${reason}`, { field, token });
}

function list<K extends 'dates' | 'yearly' | 'ranges' | 'weekdays' | 'times'>(
  definition: CalendarDefinition,
  field: K,
): NonNullable<CalendarDefinition[K]> {
  const value = definition[field] ?? [];
  if (!Array.isArray(value)) throw invalid(field, 'must be a list');
  if (value.length > LIMITS.calendarEntries) throw invalid(field, `has more than ${LIMITS.calendarEntries} entries`);
  return value as NonNullable<CalendarDefinition[K]>;
}

/** Day number of a `YYYY-MM-DD` that exists. */
function dayOf(text: unknown, field: string): number {
  const match = typeof text === 'string' ? /^(\d{4})-(\d\d)-(\d\d)$/.exec(text) : null;
  const [year, month, day] = match ? match.slice(1).map(Number) : [];
  if (!isDate(year, month, day)) throw invalid(field, `${quoted(text)} is not a date YYYY-MM-DD`, String(text));
  return daysFromCivil(year!, month!, day!);
}

function isDate(year?: number, month?: number, day?: number): boolean {
  return year !== undefined && month! >= 1 && month! <= 12 && day! >= 1 && day! <= monthLength(year, month!);
}

function yearlyOf(text: unknown, field: string): number {
  const match = typeof text === 'string' ? /^(\d\d)-(\d\d)$/.exec(text) : null;
  // 2000 is a leap year: 02-29 is excluded in the years that have it.
  if (!match || !isDate(2000, Number(match[1]), Number(match[2]))) {
    throw invalid(field, `${quoted(text)} is not a date MM-DD`, String(text));
  }
  return Number(match[1]) * 32 + Number(match[2]);
}

function rangeOf(range: { from: string; to: string }, field: string): readonly [number, number] {
  const first = dayOf(range?.from, `${field}.from`);
  const last = dayOf(range?.to, `${field}.to`);
  if (last < first) throw invalid(`${field}.to`, `${quoted(range.to)} lies before from`, range.to);
  return [first, last];
}

function weekdayIndex(name: Weekday, field: string): number {
  const index = WEEKDAYS.indexOf(name);
  if (index < 0) throw invalid(field, `${quoted(name)} is none of ${WEEKDAYS.join(', ')}`, String(name));
  return index;
}

/** One or, over midnight, two stretches of seconds of the day. */
function timesOf(times: { from: string; to: string }, field: string): [number, number][] {
  const from = secondOf(times?.from, `${field}.from`, SECONDS_PER_DAY - 1);
  const to = secondOf(times?.to, `${field}.to`, SECONDS_PER_DAY);
  if (from === to) throw invalid(`${field}.to`, `${quoted(times.to)} is equal to from`, times.to);
  if (from < to) return [[from, to]];
  const evening: [number, number] = [from, SECONDS_PER_DAY];
  return to === 0 ? [evening] : [[0, to], evening];
}

function secondOf(text: unknown, field: string, max: number): number {
  const match = typeof text === 'string' ? /^(\d\d):([0-5]\d)(?::([0-5]\d))?$/.exec(text) : null;
  const second = match ? Number(match[1]) * 3600 + Number(match[2]) * 60 + Number(match[3] ?? 0) : Number.NaN;
  if (!(second <= max)) throw invalid(field, `${quoted(text)} is not a time HH:MM or HH:MM:SS`, String(text));
  return second;
}

/** Sorts stretches and joins those that touch or overlap. */
function joined(stretches: [number, number][]): (readonly [number, number])[] {
  const result: [number, number][] = [];
  for (const [from, to] of stretches.sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else result.push([from, to]);
  }
  return result;
}

function quoted(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 40) ?? 'nothing';
}
