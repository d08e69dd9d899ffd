import { carillonError } from '../../core/errors.ts';
import type { Job, JobState, Place } from '../../core/job.ts';
import type { Change, ChangeAction } from '../../core/messages.ts';
import type { Calendars } from './calendars.ts';
import { nextEffective } from './timing.ts';
import { type ChangeContext, conflict, cutOf, type Decision, lastOutcome, unchanged, write } from './writing.ts';

/**
 * A move of a job to another shard, and so perhaps to another slot. The steps are changes like any other: in the order of the
 * job's changes, decided by the applier, safe to repeat. The manager (`engine/allot/move.ts`) sends them.
 *
 * 1. `begin` sets a cut far ahead. A new version ends there: its record in the trigger store, and its message to an owner who
 *    has the job in a wheel.
 * 2. `go` comes only when that version is certainly in force before the cut: the applier has committed it, and an owner who
 *    had to be told has answered. From here on the place that the job leaves fires nothing after the cut, whoever owns it.
 *    The job takes its new place, where it fires from the cut on; for the other one nothing changes.
 * 3. Every change of a job that has gone is written to both sides (`sidesOf`), until
 * 4. `end`: T of the old slot has passed the cut and no cursor of the job stands there. The old place is given up; its member
 *    had its last time and went with the finished ones.
 *
 * A job that does not fire has nothing to cut: `begin` puts it on its new place at once. A change by a user between 1 and 2
 * ends the move, as `cancel` does.
 *
 * Why nothing is fired twice: the sides are disjoint in every version from `go` on, and before it there is one. Why nothing is
 * lost: until `go` the job is where it was and, should nobody go on with the move before the cut, the next step or change
 * begins at the cut (`cutOf`), so what passed meanwhile is overdue and goes by the misfire policy; after `go` nothing needs
 * the manager.
 */
export function moveJob(
  live: Job,
  change: Change,
  action: Extract<ChangeAction, { kind: 'move' }>,
  context: ChangeContext,
): Decision {
  if (action.step === 'begin') return begin(live, change, action.cutMs, context);
  if (action.step === 'end') return end(live, change, context);
  if (live.move === undefined || live.move.from !== undefined) throw conflict(live, 'it is not about to move');
  const { cutMs } = live.move;
  const state = revived(live, cutMs, context.calendars);
  if (action.step === 'cancel') return write(live, change, context, { state });
  const { shard, number } = live;
  const move = { cutMs, from: { shard, number } };
  return write(live, change, context, { state, ...takePlace(context), move, cutMs: live.cutMs });
}

function begin(live: Job, change: Change, cutMs: number, context: ChangeContext): Decision {
  if (isLate(change.atMs, cutMs, context.nowMs)) throw conflict(live, 'its move was asked for too long ago');
  if (live.move?.from !== undefined) throw conflict(live, 'it has not left its last place yet');
  const state = live.move === undefined ? live.state : revived(live, live.move.cutMs, context.calendars);
  if (state !== 'enabled') {
    const { cutMs: stays, stateReason } = live;
    return write(live, change, context, { state, stateReason, cutMs: stays, ...takePlace(context) });
  }
  // A job that runs out before the cut leaves its place by itself.
  if (live.move === undefined && nextEffective(live, cutMs, context.calendars) === null) return unchanged(live);
  // Begun again it is the same version with a later end: nothing of what it owes may fall between the two.
  const again = live.move !== undefined && live.state === 'enabled';
  return write(live, change, context, { state, cutMs: again ? live.cutMs : cutOf(live, change), move: { cutMs } });
}

function end(live: Job, change: Change, context: ChangeContext): Decision {
  if (live.move?.from === undefined) throw conflict(live, 'it does not leave a place');
  // The side that it leaves has not been told yet of what was written a moment ago.
  if (live.position.offset >= context.uncommittedFrom) throw conflict(live, 'its last change is not committed');
  const { move, replay: _, ...next } = live;
  if (next.state === 'enabled') {
    next.cutMs = Math.max(next.cutMs, move.cutMs);
    // Its last time lay on the side that it leaves, and the recorder knows the other one only.
    if (nextEffective(next, next.cutMs, context.calendars) === null) next.state = 'finished';
  }
  next.position = context.position;
  next.lastChange = { id: change.id, result: 'updated' };
  return { outcome: lastOutcome(next), next };
}

/**
 * Whether more than half of the time to the cut is over. A version that ends at a cut must be in force long before it, or the
 * version before has fired what comes after, and nobody knows how far.
 */
function isLate(atMs: number, cutMs: number, nowMs: number): boolean {
  return nowMs > atMs + (cutMs - atMs) / 2;
}

/**
 * The next version of a job whose move was begun, and not committed, so long ago that its cut is not far ahead any more: the
 * move is taken back before anybody hears of it. Null: there is no such thing.
 */
export function withoutLateMove(
  job: Job,
  change: Change,
  context: { calendars: Calendars; nowMs: number },
): Job | null {
  const { action, atMs } = change;
  const { move, ...rest } = job;
  if (action.kind !== 'move' || action.step !== 'begin' || move === undefined || move.from !== undefined) return null;
  if (move.cutMs !== action.cutMs || !isLate(atMs, move.cutMs, context.nowMs)) return null;
  return { ...rest, version: job.version + 1, state: revived(job, move.cutMs, context.calendars) };
}

/** Where the record ran out at the cut before anybody went on with the move, the recorder took that for the end of the job. */
function revived(job: Job, cutMs: number, calendars: Calendars): JobState {
  return job.state === 'finished' && nextEffective(job, cutMs, calendars) !== null ? 'enabled' : job.state;
}

function takePlace({ takePlace: take }: ChangeContext): Place {
  const place = take();
  if (place === null) throw carillonError('capacity-exhausted', 'no shard has a place for a job that moves');
  return place;
}
