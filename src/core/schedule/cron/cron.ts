import { LIMITS } from '../../limits.ts';
import { SECONDS_PER_DAY } from '../civil.ts';
import { NO_OCCURRENCE, type Occurrences } from '../occurrences.ts';
import type { Zone } from '../zones/zone.ts';
import { LocalTimes, NO_LAST, NO_NEXT } from './local.ts';
import type { CronFields } from './parse.ts';

/** Entries of the memory of next occurrences: jobs of one expression ask for the same few instants at about one time. */
const REMEMBERED = 8;
const LAST_SECOND = Math.floor(LIMITS.timeMaxMs / 1000);

/**
 * The occurrences of a cron expression on the clock of a zone. The clock is a row of stretches of constant offset; within
 * one, local matches are taken over as they are (`LocalTimes`), and two rules act where stretches meet:
 *
 * - **gap** (clocks go forward): with `fireAfter`, if any match lies among the skipped local times, there is one occurrence
 *   at the first instant after the gap, whether or not that instant matches itself.
 * - **overlap** (clocks go back): with `freshOnly`, matches among local times that have passed before do not count.
 *
 * A search visits the stretches between its start and its answer, two a year where clocks change, with one comparison each.
 */
export class CronTimes implements Occurrences {
  private readonly local: LocalTimes;
  private readonly zone: Zone;
  private readonly fireAfter: boolean;
  private readonly freshOnly: boolean;
  // next(after) = found[i] for each after in [askedFrom[i], found[i]); Infinity stands for no occurrence.
  private readonly askedFrom = new Float64Array(REMEMBERED).fill(Number.POSITIVE_INFINITY);
  private readonly found = new Float64Array(REMEMBERED);
  private slot = 0;

  /**
   * @param fireAfter whether skipped times fire after the gap
   * @param freshOnly whether repeated times fire in their first pass only
   */
  constructor(fields: CronFields, zone: Zone, fireAfter: boolean, freshOnly: boolean) {
    this.local = new LocalTimes(fields);
    this.zone = zone;
    this.fireAfter = fireAfter;
    this.freshOnly = freshOnly;
  }

  /** Whether the day fields name any day at all. */
  get hasDays(): boolean {
    return this.local.hasDays;
  }

  next(afterMs: number): number {
    const { askedFrom, found } = this;
    for (let i = 0; i < REMEMBERED; i++) {
      if (afterMs >= askedFrom[i]! && afterMs < found[i]!) {
        return found[i] === Number.POSITIVE_INFINITY ? NO_OCCURRENCE : found[i]!;
      }
    }
    const next = this.search(afterMs);
    this.slot = (this.slot + 1) % REMEMBERED;
    askedFrom[this.slot] = afterMs;
    found[this.slot] = next === NO_OCCURRENCE ? Number.POSITIVE_INFINITY : next;
    return next;
  }

  /** `next` without the memory. */
  search(afterMs: number): number {
    const second = this.nextSecond(Math.max(0, Math.floor(afterMs / 1000) + 1));
    return second > LAST_SECOND ? NO_OCCURRENCE : second * 1000;
  }

  last(atOrBeforeMs: number, afterMs: number): number {
    const lowest = Math.max(0, Math.floor(afterMs / 1000) + 1);
    const second = this.lastSecond(Math.min(LAST_SECOND, Math.floor(atOrBeforeMs / 1000)), lowest);
    return second === NO_LAST ? NO_OCCURRENCE : second * 1000;
  }

  count(afterMs: number, upToMs: number): number {
    const { zone, local } = this;
    const first = Math.max(0, Math.floor(afterMs / 1000) + 1);
    const end = Math.min(LAST_SECOND, Math.floor(upToMs / 1000)) + 1;
    if (end <= first) return 0;
    let count = 0;
    // One second earlier, so that a gap that ends at the first second is seen.
    zone.seek(first - 1);
    for (let start = first; ; start = zone.from) {
      const fresh = this.freshOnly ? Math.max(start, zone.freshFrom) : start;
      count += local.count(fresh + zone.offset, Math.min(end, zone.until) + zone.offset);
      if (zone.until >= end) return count;
      const skippedFrom = zone.until + zone.offset;
      zone.seek(zone.until);
      // The fire after a gap is one of its own unless the instant matches anyway.
      const skippedTo = zone.from + zone.offset;
      if (this.fireAfter && local.count(skippedFrom, skippedTo) > 0 && local.count(skippedTo, skippedTo + 1) === 0)
        count++;
    }
  }

  /** First occurrence at or after a UTC second, or NO_NEXT. */
  private nextSecond(start: number): number {
    const { zone, local } = this;
    // One second earlier, so that a gap that ends at the start is seen.
    zone.seek(start - 1);
    /** Local time from which on `match` is known to be the first match. */
    let searched = (this.freshOnly ? Math.max(start, zone.freshFrom) : start) + zone.offset;
    let match = local.next(searched);
    while (match >= zone.until + zone.offset) {
      zone.seek(zone.until);
      const { from, offset } = zone;
      // Clocks never go back by more than a day, so a match that the whole calendar lacks cannot come back after two.
      if (from > LAST_SECOND || (match === NO_NEXT && from > start + 2 * SECONDS_PER_DAY)) return NO_NEXT;
      // The match lies at or after the end of the stretch before: before this one's first local time means in the gap.
      if (this.fireAfter && match < from + offset) return from;
      const first = (this.freshOnly ? zone.freshFrom : from) + offset;
      if (first < searched || match < first) {
        searched = first;
        match = local.next(first);
      }
    }
    return match - zone.offset;
  }

  /** Last occurrence at or before a UTC second and not before another, or NO_LAST. */
  private lastSecond(start: number, lowest: number): number {
    const { zone, local } = this;
    /** Local time up to which `match` is known to be the last match. */
    let searched = NO_LAST;
    let match = NO_LAST;
    for (let end = start; end >= lowest; ) {
      zone.seek(end);
      const { from, offset } = zone;
      const first = this.freshOnly ? zone.freshFrom : from;
      if (end + offset > searched || match > end + offset) {
        searched = end + offset;
        match = local.last(searched);
      }
      if (match >= first + offset) return match - offset >= lowest ? match - offset : NO_LAST;
      if (from < lowest) return NO_LAST;
      // The match lies before this stretch's first local time: not before the end of the stretch before means in the gap.
      if (this.fireAfter && match >= from + zone.offsetAt(from - 1)) return from;
      end = from - 1;
    }
    return NO_LAST;
  }
}
