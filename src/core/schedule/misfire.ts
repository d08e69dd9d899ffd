import type { MisfirePolicy } from '../job.ts';
import { NO_OCCURRENCE } from './occurrences.ts';
import type { CompiledSchedule } from './schedule.ts';

/** What is still to be fired of a span of nominal times, and what is not. */
export interface MisfireDecision {
  /**
   * Exactly the nominal times in (afterMs, upToMs] are to be fired, in order: every policy leaves out a beginning of the
   * span, so what remains is one span, which is what a cursor can hold. Empty if afterMs = upToMs.
   */
  afterMs: number;
  upToMs: number;
  /** How many nominal times that span holds. */
  fire: number;
  /** How many of them are misfires (made up for, marked late). They are the first ones. */
  late: number;
  /** How many misfires do not fire: superseded (`once`), skipped, or beyond a limit. */
  dropped: number;
}

/**
 * Decides about the nominal times in (fromMs, toMs] that were not published by `nowMs`. One is a misfire if its effective
 * time is more than `misfireAfterMs` ago; younger ones always fire. Of the misfires, `once` fires the latest, `skip` none,
 * `all` each, within the limits of the policy: those older than `maxAgeMs` are dropped, and of the others at most the latest
 * `maxNumber` fire (`maxPerSecond` is kept by whoever publishes them). Computed, not walked: about 50 counts at most.
 *
 * Example: every 420,000 ms from 00:00; down from 00:10:00 to 01:00:30; `once` answers the span that holds 00:56 only, with
 * 6 dropped.
 */
export function misfire(
  policy: MisfirePolicy,
  schedule: CompiledSchedule,
  fromMs: number,
  toMs: number,
  nowMs: number,
  misfireAfterMs: number,
): MisfireDecision {
  /** Last nominal time that is a misfire. */
  const oldTo = Math.max(fromMs, Math.min(toMs, nowMs - misfireAfterMs - schedule.offsetMs - 1));
  const misfires = schedule.count(fromMs, oldTo);
  const young = schedule.count(oldTo, toMs);
  const afterMs = misfires === 0 ? oldTo : madeUpAfter(policy, schedule, fromMs, oldTo, nowMs);
  const late = afterMs === oldTo ? 0 : schedule.count(afterMs, oldTo);
  return { afterMs, upToMs: Math.max(fromMs, toMs), fire: late + young, late, dropped: misfires - late };
}

/** The instant in [fromMs, oldTo] after which misfires are made up for. */
function madeUpAfter(
  { mode, maxAgeMs, maxNumber }: MisfirePolicy,
  schedule: CompiledSchedule,
  fromMs: number,
  oldTo: number,
  nowMs: number,
): number {
  if (mode === 'skip') return oldTo;
  const youngEnough = maxAgeMs === undefined ? fromMs : nowMs - maxAgeMs - schedule.offsetMs - 1;
  const after = Math.min(oldTo, Math.max(fromMs, youngEnough));
  if (mode === 'once') {
    const latest = schedule.last(oldTo, after);
    return latest === NO_OCCURRENCE ? oldTo : latest - 1;
  }
  return maxNumber === undefined ? after : latestAfter(schedule, after, oldTo, maxNumber);
}

/** The instant in [after, upTo] behind which at most the latest `n` occurrences up to `upTo` lie: a search by halves. */
function latestAfter(schedule: CompiledSchedule, after: number, upTo: number, n: number): number {
  if (schedule.count(after, upTo) <= n) return after;
  let tooMany = after;
  let few = upTo;
  while (few - tooMany > 1) {
    const middle = tooMany + Math.floor((few - tooMany) / 2);
    if (schedule.count(middle, upTo) > n) tooMany = middle;
    else few = middle;
  }
  return few;
}
