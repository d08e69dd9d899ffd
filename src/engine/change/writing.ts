import { type CarillonError, carillonError } from '../../core/errors.ts';
import type { ChangeOutcome, ChangePosition, ChangeResult, Job, Place } from '../../core/job.ts';
import type { Change } from '../../core/messages.ts';
import type { Calendars } from './calendars.ts';
import type { Timing } from './timing.ts';

/** What a decision may ask for beside the job and the change. */
export interface ChangeContext {
  position: ChangePosition;
  calendars: Calendars;
  /** Gives a place for a job that is new or moves; null: no shard has one. Asked only when all else is in order. */
  takePlace: () => Place | null;
  /** Changes from this offset on are not committed yet. */
  uncommittedFrom: number;
  /** When they are applied, UTC ms. */
  nowMs: number;
}

export interface Decision {
  outcome: ChangeOutcome;
  /** The document to store (a tombstone after a delete); null: nothing changes. */
  next: Job | null;
  /** The same request came before under another offset: nothing is done or counted again. */
  repeated?: boolean;
}

/** The outcome of the last change that wrote this job. */
export function lastOutcome(job: Job): ChangeOutcome {
  return { ok: true, result: job.lastChange.result, version: job.version, state: job.state };
}

export function unchanged(live: Job): Decision {
  return { outcome: { ok: true, result: 'unchanged', version: live.version, state: live.state }, next: null };
}

export function conflict(live: Job, detail: string): CarillonError {
  return carillonError('state-conflict', `the job is ${live.state}: ${detail}`);
}

/**
 * The cut of a change: its instant, but never before the cut of the version that it follows. The record of a job that is
 * about to move ends at the cut of its move: should that have passed, what comes after it belongs to the new version; and
 * when it ran out, everything before it was fired.
 */
export function cutOf({ cutMs, move, state }: Job, { atMs }: Change): number {
  if (move === undefined || move.from !== undefined) return Math.max(cutMs, atMs);
  return Math.max(cutMs, state === 'finished' ? move.cutMs : Math.min(atMs, move.cutMs));
}

/**
 * The next version of a job. A reason belongs to the state that it was given for, and goes with it; so does a move that has
 * only begun: whoever wants it begins it again.
 */
export function write(
  live: Job,
  change: Change,
  context: ChangeContext,
  fields: { [F in keyof Job]?: Job[F] | undefined },
  result: ChangeResult = 'updated',
): Decision {
  const { stateReason: _, replay: __, move, ...kept } = live;
  const cutMs = fields.cutMs ?? cutOf(live, change);
  const next = {
    ...kept,
    ...(move?.from === undefined ? {} : { move }),
    ...fields,
    cutMs,
    version: live.version + 1,
    updatedMs: Math.max(change.atMs, live.updatedMs),
    position: context.position,
    lastChange: { id: change.id, result },
  };
  for (const [field, value] of Object.entries(next)) {
    if (value === undefined) delete next[field as keyof typeof next];
  }
  if (fields.schedule !== undefined && (fields as Timing).counted === undefined) delete next.counted;
  return { outcome: lastOutcome(next as Job), next: next as Job };
}
