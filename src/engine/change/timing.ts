import { isDeepStrictEqual } from 'node:util';
import type { Job } from '../../core/job.ts';
import {
  type CompiledSchedule,
  compileSchedule,
  firstOccurrence,
  NO_OCCURRENCE,
  normalSchedule,
} from '../../core/schedule/schedule.ts';
import type { Schedule, ScheduleBounds } from '../../core/schedule/types.ts';
import type { Calendars } from './calendars.ts';

/** When a job fires, in normal form. */
export interface Timing {
  schedule: Schedule;
  bounds: ScheduleBounds;
  counted?: { maxCount: number; fromMs: number };
}

/**
 * The normal form of what a user said. What is left out is taken from the stored job, so that saving the same again moves
 * nothing: a rate without an anchor keeps the stored grid, also with another period, and a maximum count that was set
 * before is counted from where it was counted then. What is really new is counted from the cut.
 *
 * Example: a rate of 5,000 ms made at 12:00:01.000 is anchored at 12:00:06.000. The same definition, saved at 12:00:09.000,
 * has that anchor again and is equal to the stored one.
 */
export function normalTiming(
  said: { schedule: Schedule; bounds: ScheduleBounds },
  key: string,
  stored: Timing | null,
  cutMs: number,
  calendars: Calendars,
): Timing {
  const schedule = withStoredAnchor(said.schedule, said.bounds, stored);
  const { maxCount } = said.bounds;
  const from = (createdMs: number): Timing => ({
    ...normalSchedule(schedule, said.bounds, { key, createdMs, calendar: calendars.named }),
    ...(maxCount === undefined ? {} : { counted: { maxCount, fromMs: createdMs } }),
  });
  if (stored?.counted !== undefined && stored.counted.maxCount === maxCount) {
    const again = from(stored.counted.fromMs);
    if (sameTiming(again, stored)) return again;
  }
  const timing = from(cutMs);
  // An end that was counted once and is now said as an end (a patch of something else) was still counted.
  if (timing.counted === undefined && stored?.counted !== undefined && sameTiming(timing, stored)) {
    return { ...timing, counted: stored.counted };
  }
  return timing;
}

export function sameTiming(a: Timing, b: Timing): boolean {
  return isDeepStrictEqual(a.schedule, b.schedule) && isDeepStrictEqual(a.bounds, b.bounds);
}

function withStoredAnchor(schedule: Schedule, bounds: ScheduleBounds, stored: Timing | null): Schedule {
  if (schedule.kind !== 'rate' || schedule.anchorMs !== undefined || stored?.schedule.kind !== 'rate') return schedule;
  // A start that changed is said on purpose: without an anchor the grid begins with it.
  if (bounds.startMs !== stored.bounds.startMs) return schedule;
  return stored.schedule.anchorMs === undefined ? schedule : { ...schedule, anchorMs: stored.schedule.anchorMs };
}

type Timed = Pick<Job, 'key' | 'schedule' | 'bounds'>;

function compiledOf(job: Timed, calendars: Calendars): CompiledSchedule {
  // In normal form nothing is counted from the creation any more.
  return compileSchedule(job.schedule, job.bounds, { key: job.key, createdMs: 0, calendar: calendars.named });
}

/** First effective time strictly after an instant, UTC ms, or null. Throws as `compileSchedule`. */
export function nextEffective(job: Timed, afterMs: number, calendars: Calendars): number | null {
  const compiled = compiledOf(job, calendars);
  const nominal = compiled.next(afterMs - compiled.offsetMs);
  return nominal === NO_OCCURRENCE ? null : nominal + compiled.offsetMs;
}

/** As `nextEffective`, but no occurrence is `schedule-impossible`. */
export function firstEffective(job: Timed, afterMs: number, calendars: Calendars): number {
  const compiled = compiledOf(job, calendars);
  return firstOccurrence(compiled, job.schedule, afterMs - compiled.offsetMs) + compiled.offsetMs;
}
