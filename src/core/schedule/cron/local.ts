import { monthLength, packedCivil, SECONDS_PER_DAY, weekdayOf } from '../civil.ts';
import type { CronFields } from './parse.ts';

/** No match behind a time, and none before it. */
export const NO_NEXT = Number.POSITIVE_INFINITY;
export const NO_LAST = Number.NEGATIVE_INFINITY;

const FIRST_YEAR = 1970;
const LAST_YEAR = 9999;
/** The calendar repeats after this many months: a rule without a year that finds nothing in them never will. */
const MONTHS_PER_400_YEARS = 4800;

/**
 * The matches of a cron expression on a clock without changes: local seconds since 1970-01-01T00:00:00 local time. Zones are
 * laid over it by `CronTimes`. A search looks at most at the 4,800 months after which the calendar repeats, or, with a year
 * field, at the months up to the last year named; within a month and a day every step is a table look-up.
 */
export class LocalTimes {
  private readonly fields: CronFields;
  private readonly seconds: Unit;
  private readonly minutes: Unit;
  private readonly hours: Unit;
  private readonly perDay: number;
  private readonly firstOfDay: number;
  private readonly lastOfDay: number;
  // The month that was looked at last: its first day, the day behind it, and the mask of its matching days.
  private year = 0;
  private month = 0;
  private monthStart = 0;
  private monthEnd = 0;
  private mask = 0;

  constructor(fields: CronFields) {
    this.fields = fields;
    this.seconds = new Unit(fields.seconds);
    this.minutes = new Unit(fields.minutes);
    this.hours = new Unit(fields.hours);
    this.perDay = this.seconds.size * this.minutes.size * this.hours.size;
    this.firstOfDay = this.hours.first * 3600 + this.minutes.first * 60 + this.seconds.first;
    this.lastOfDay = this.hours.last * 3600 + this.minutes.last * 60 + this.seconds.last;
    this.loadMonthOf(0);
  }

  /** Whether the day fields name a day of any month of any year at all. */
  get hasDays(): boolean {
    const { months, days } = this.fields;
    for (let month = 1; month <= 12; month++) {
      if (((months >> month) & 1) === 0) continue;
      for (const year of [2023, 2024]) {
        for (let weekday = 0; weekday < 7; weekday++) {
          if (days.maskOf(weekday, monthLength(year, month)) !== 0) return true;
        }
      }
    }
    return false;
  }

  /** First match at or after a local second, or NO_NEXT. */
  next(local: number): number {
    const day = Math.floor(local / SECONDS_PER_DAY);
    if (this.isMatchingDay(day)) {
      const second = this.nextInDay(local - day * SECONDS_PER_DAY);
      if (second >= 0) return day * SECONDS_PER_DAY + second;
    }
    const following = this.nextDay(day + 1);
    return following * SECONDS_PER_DAY + this.firstOfDay;
  }

  /** Last match at or before a local second and not before 1970, or NO_LAST. */
  last(local: number): number {
    const day = Math.floor(local / SECONDS_PER_DAY);
    if (this.isMatchingDay(day)) {
      const second = this.lastInDay(local - day * SECONDS_PER_DAY);
      if (second >= 0) return day * SECONDS_PER_DAY + second;
    }
    const previous = this.lastDay(day - 1);
    return previous * SECONDS_PER_DAY + this.lastOfDay;
  }

  /**
   * Number of matches in [from, to), by arithmetic: whole days are matching days times matches per day, and matching days
   * are counted a month at a time.
   */
  count(from: number, to: number): number {
    if (to <= from) return 0;
    const firstDay = Math.floor(from / SECONDS_PER_DAY);
    const lastDay = Math.floor(to / SECONDS_PER_DAY);
    const skipped = this.isMatchingDay(firstDay) ? this.rank(from - firstDay * SECONDS_PER_DAY) : 0;
    const partial = this.isMatchingDay(lastDay) ? this.rank(to - lastDay * SECONDS_PER_DAY) : 0;
    return this.countDays(firstDay, lastDay) * this.perDay + partial - skipped;
  }

  private isMatchingDay(day: number): boolean {
    if (day < this.monthStart || day >= this.monthEnd) this.loadMonthOf(day);
    return ((this.mask >> (day - this.monthStart)) & 1) === 1;
  }

  private loadMonthOf(day: number): void {
    const civil = packedCivil(day);
    this.year = civil >> 9;
    this.month = (civil >> 5) & 15;
    this.loadMonth(day - (civil & 31) + 1);
  }

  private loadMonth(start: number): void {
    const { days, months, years } = this.fields;
    const length = monthLength(this.year, this.month);
    this.monthStart = start;
    this.monthEnd = start + length;
    const matches = ((months >> this.month) & 1) === 1 && (!years || years[this.year - FIRST_YEAR] === 1);
    this.mask = matches ? days.maskOf(weekdayOf(start), length) : 0;
  }

  private toNextMonth(): void {
    this.month++;
    if (this.month > 12) {
      this.month = 1;
      this.year++;
    }
    this.loadMonth(this.monthEnd);
  }

  private toPreviousMonth(): void {
    this.month--;
    if (this.month < 1) {
      this.month = 12;
      this.year--;
    }
    this.loadMonth(this.monthStart - monthLength(this.year, this.month));
  }

  /** First matching day at or after a day. */
  private nextDay(day: number): number {
    if (day < this.monthStart || day >= this.monthEnd) this.loadMonthOf(day);
    let rest = (this.mask >> (day - this.monthStart)) << (day - this.monthStart);
    for (let months = this.searchBound(); rest === 0; months--) {
      if (months === 0 || this.year > LAST_YEAR) return NO_NEXT;
      this.toNextMonth();
      rest = this.mask;
    }
    return this.year > LAST_YEAR ? NO_NEXT : this.monthStart + lowestBit(rest);
  }

  /** Last matching day at or before a day. */
  private lastDay(day: number): number {
    if (day < this.monthStart || day >= this.monthEnd) this.loadMonthOf(day);
    let rest = this.mask & (2 ** (day - this.monthStart + 1) - 1);
    for (let months = this.searchBound(); rest === 0; months--) {
      if (months === 0 || this.year < FIRST_YEAR) return NO_LAST;
      this.toPreviousMonth();
      rest = this.mask;
    }
    return this.year < FIRST_YEAR ? NO_LAST : this.monthStart + highestBit(rest);
  }

  /** Months that a search may look at. With a year field the calendar's cycle proves nothing: all years are looked at. */
  private searchBound(): number {
    return this.fields.years ? (LAST_YEAR - FIRST_YEAR + 2) * 12 : MONTHS_PER_400_YEARS;
  }

  /** Matching days in [from, to). */
  private countDays(from: number, to: number): number {
    if (to <= from) return 0;
    if (from < this.monthStart || from >= this.monthEnd) this.loadMonthOf(from);
    let days = 0;
    let mask = this.mask & ~(2 ** (from - this.monthStart) - 1);
    while (to >= this.monthEnd) {
      days += bitCount(mask);
      if (to === this.monthEnd) return days;
      this.toNextMonth();
      mask = this.mask;
    }
    return days + bitCount(mask & (2 ** (to - this.monthStart) - 1));
  }

  /** First match of a day at or after a second of it, or -1. */
  private nextInDay(second: number): number {
    const { hours, minutes, seconds } = this;
    const hour = (second / 3600) | 0;
    if (hours.matches[hour] === 1) {
      const minute = ((second / 60) | 0) % 60;
      if (minutes.matches[minute] === 1) {
        const found = seconds.atOrAfter[second % 60]!;
        if (found >= 0) return second - (second % 60) + found;
      }
      const found = minutes.atOrAfter[minute + 1]!;
      if (found >= 0) return hour * 3600 + found * 60 + seconds.first;
    }
    const found = hours.atOrAfter[hour + 1]!;
    return found < 0 ? -1 : found * 3600 + minutes.first * 60 + seconds.first;
  }

  /** Last match of a day at or before a second of it, or -1. */
  private lastInDay(second: number): number {
    const { hours, minutes, seconds } = this;
    const hour = (second / 3600) | 0;
    if (hours.matches[hour] === 1) {
      const minute = ((second / 60) | 0) % 60;
      if (minutes.matches[minute] === 1) {
        const found = seconds.before[(second % 60) + 1]!;
        if (found >= 0) return second - (second % 60) + found;
      }
      const found = minutes.before[minute]!;
      if (found >= 0) return hour * 3600 + found * 60 + seconds.last;
    }
    const found = hours.before[hour]!;
    return found < 0 ? -1 : found * 3600 + minutes.last * 60 + seconds.last;
  }

  /** Number of matches of a matching day before a second of it. */
  private rank(second: number): number {
    const { hours, minutes, seconds } = this;
    const hour = (second / 3600) | 0;
    const minute = ((second / 60) | 0) % 60;
    let rank = hours.rank[hour]! * minutes.size * seconds.size;
    if (hours.matches[hour] === 1) {
      rank += minutes.rank[minute]! * seconds.size;
      if (minutes.matches[minute] === 1) rank += seconds.rank[second % 60]!;
    }
    return rank;
  }
}

/** The tables of one unit of the day (seconds, minutes or hours); each has an entry for the unit's end as well. */
class Unit {
  readonly matches: Uint8Array;
  /** Smallest matching value at or after a value, or -1. */
  readonly atOrAfter: Int8Array;
  /** Greatest matching value before a value, or -1. */
  readonly before: Int8Array;
  /** Number of matching values before a value. */
  readonly rank: Uint8Array;
  readonly size: number;
  readonly first: number;
  readonly last: number;

  constructor(matches: Uint8Array) {
    const length = matches.length;
    this.matches = matches;
    this.atOrAfter = new Int8Array(length + 1).fill(-1);
    this.before = new Int8Array(length + 1).fill(-1);
    this.rank = new Uint8Array(length + 1);
    for (let value = length - 1; value >= 0; value--) {
      this.atOrAfter[value] = matches[value] === 1 ? value : this.atOrAfter[value + 1]!;
    }
    for (let value = 0; value < length; value++) {
      this.before[value + 1] = matches[value] === 1 ? value : this.before[value]!;
      this.rank[value + 1] = this.rank[value]! + matches[value]!;
    }
    this.size = this.rank[length]!;
    this.first = this.atOrAfter[0]!;
    this.last = this.before[length]!;
  }
}

function lowestBit(mask: number): number {
  return 31 - Math.clz32(mask & -mask);
}

function highestBit(mask: number): number {
  return 31 - Math.clz32(mask);
}

/** Number of set bits (Hacker's Delight, figure 5-2). */
function bitCount(mask: number): number {
  let count = mask - ((mask >>> 1) & 0x5555_5555);
  count = (count & 0x3333_3333) + ((count >>> 2) & 0x3333_3333);
  count = (count + (count >>> 4)) & 0x0f0f_0f0f;
  return Math.imul(count, 0x0101_0101) >>> 24;
}
