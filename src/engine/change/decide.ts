import { isDeepStrictEqual } from 'node:util';
import { CarillonError, carillonError } from '../../core/errors.ts';
import type { ChangeOutcome, Job, JobDefinition, JobState } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Change, ChangeAction } from '../../core/messages.ts';
import type { Calendars } from './calendars.ts';
import { encodedRecord } from './encoded.ts';
import { moveJob } from './move.ts';
import { patched } from './patch.ts';
import { firstEffective, nextEffective, normalTiming, sameTiming } from './timing.ts';
import { type ChangeContext, conflict, cutOf, type Decision, lastOutcome, unchanged, write } from './writing.ts';

/** Runs by hand that a job remembers: a request that is repeated after more than these runs again. */
const FIRES_KEPT = 16;

/**
 * What one change does to one job; the rules of all states stand here and nowhere else. It never throws: what cannot be done
 * is an outcome, so that no change stops those behind it.
 *
 * | state      | put, patch                        | pause   | resume  | terminate  | fire | delete |
 * |------------|-----------------------------------|---------|---------|------------|------|--------|
 * | none       | put: enabled or paused            | -       | -       | -          | -    | -      |
 * | enabled    | enabled, paused if asked          | paused  | same    | terminated | run  | none   |
 * | paused     | paused, enabled if asked          | same    | enabled | terminated | run  | none   |
 * | finished   | enabled with a new schedule       | refused | refused | terminated | run  | none   |
 * | error      | enabled                           | refused | enabled | terminated | -    | none   |
 * | terminated | refused                           | refused | refused | same       | -    | none   |
 */
export function decide(current: Job | null, change: Change, context: ChangeContext): Decision {
  if (current !== null && current.lastChange.id === change.id) {
    return { outcome: lastOutcome(current), next: null, repeated: true };
  }
  try {
    const decision = decideAction(current, change, context);
    if (decision.next !== null) checkSize(decision.next, context.calendars);
    return decision;
  } catch (error) {
    return { outcome: refusal(error), next: null };
  }
}

function refusal(error: unknown): ChangeOutcome {
  if (!(error instanceof CarillonError)) return { ok: false, code: 'internal', detail: 'the change cannot be applied' };
  const { code, detail, field } = error;
  return { ok: false, code, detail, ...(field === undefined ? {} : { field }) };
}

/** Payload characters from which on a record is measured; without calendars a smaller one always fits. */
const MEASURED_FROM = LIMITS.recordBytes / 6;

/**
 * A record that is too large for the fast path would stop its whole partition, so such a job is refused. Only calendars can
 * make it so, since payloads are bounded by themselves.
 */
function checkSize(job: Job, calendars: Calendars): void {
  if (job.deleted || (job.bounds.calendars === undefined && job.payload.length < MEASURED_FROM)) return;
  const { length } = encodedRecord(job, calendars);
  if (length <= LIMITS.recordBytes) return;
  const field = job.payload.length < MEASURED_FROM ? 'calendars' : 'payload';
  throw carillonError(
    'request-too-large',
    `payload and calendars together have ${length} bytes, at most ${LIMITS.recordBytes}`,
    { field },
  );
}

function decideAction(current: Job | null, change: Change, context: ChangeContext): Decision {
  const live = current?.deleted ? null : current;
  if (change.ifVersion !== undefined && live?.version !== change.ifVersion) {
    const found = live === null ? 'there is no job' : `it has version ${live.version}`;
    throw carillonError('version-mismatch', `version ${change.ifVersion} was asked for, but ${found}`);
  }
  const { action } = change;
  if (action.kind === 'put' && live === null) return create(current, change, action, context);
  if (live === null) {
    throw carillonError('job-not-found', `"${change.key}" in cluster "${change.cluster}"`, { field: 'key' });
  }
  switch (action.kind) {
    case 'put':
      return put(live, change, action, context);
    case 'patch':
      return update(live, change, patched(live, action.fields), action.paused, context);
    case 'recompute':
      return recompute(live, change, context);
    case 'delete':
      return write(live, change, context, { deleted: true }, 'deleted');
    case 'fire':
      return fire(live, change, context);
    case 'move':
      return moveJob(live, change, action, context);
    default:
      return moveState(live, change, action.kind, context);
  }
}

type Put = Extract<ChangeAction, { kind: 'put' }>;

function create(tombstone: Job | null, change: Change, action: Put, context: ChangeContext): Decision {
  if (action.onlyIf === 'present') throw carillonError('job-not-found', `"${change.key}" is not there to be replaced`);
  const { key, cluster, atMs } = change;
  // A job that is made again is a new one, on a new place; it begins after the end of the deleted one.
  const cutMs = Math.max(atMs, tombstone?.cutMs ?? 0);
  const timing = normalTiming(action.definition, key, null, cutMs, context.calendars);
  firstEffective({ key, ...timing }, cutMs, context.calendars);
  const place = context.takePlace();
  if (place === null) throw carillonError('capacity-exhausted', 'the manager makes new shards; repeat the request');
  const next: Job = {
    ...action.definition,
    ...timing,
    cluster,
    key,
    version: 1,
    state: action.paused ? 'paused' : 'enabled',
    ...place,
    createdMs: cutMs,
    updatedMs: cutMs,
    cutMs,
    position: context.position,
    lastChange: { id: change.id, result: 'created' },
  };
  return { outcome: lastOutcome(next), next };
}

function put(live: Job, change: Change, action: Put, context: ChangeContext): Decision {
  const decision = update(live, change, action.definition, action.paused, context);
  if (action.onlyIf === 'absent' && decision.next !== null) {
    throw carillonError('job-exists', `"${change.key}" is there with another definition (version ${live.version})`);
  }
  return decision;
}

function update(
  live: Job,
  change: Change,
  definition: JobDefinition,
  paused: boolean | undefined,
  context: ChangeContext,
): Decision {
  if (live.state === 'terminated') throw conflict(live, 'it was ended for good; delete it to use the key again');
  const { calendars } = context;
  const cutMs = cutOf(live, change);
  const timing = normalTiming(definition, live.key, live, cutMs, calendars);
  const moves = !sameTiming(timing, live);
  const staysPaused = paused ?? live.state === 'paused';
  const wanted: JobState = staysPaused ? 'paused' : 'enabled';
  const quiet = live.state === wanted || live.state === 'finished';
  if (!moves && quiet && sameRest(definition, live)) return unchanged(live);

  // What passed in a pause is kept for the misfire policy, unless the schedule itself is another one now.
  const cut = live.state === 'paused' && !moves ? live.cutMs : cutMs;
  const job = { key: live.key, ...timing };
  const first = moves ? firstEffective(job, cut, calendars) : nextEffective(job, cut, calendars);
  const state = first === null && !(live.state === 'paused' && staysPaused) ? 'finished' : wanted;
  return write(live, change, context, { ...rest(definition), ...timing, state, cutMs: cut });
}

/** The fields that do not move a job's times; those that are absent take the stored ones away. */
function rest({ misfire, payload, contentType, description, labels }: JobDefinition) {
  return { misfire, payload, contentType, description, labels };
}

function sameRest(a: JobDefinition, b: JobDefinition): boolean {
  return isDeepStrictEqual(rest(a), rest(b));
}

function recompute(live: Job, change: Change, context: ChangeContext): Decision {
  if (live.state === 'terminated') return unchanged(live);
  const cutMs = live.state === 'paused' ? live.cutMs : cutOf(live, change);
  try {
    const first = nextEffective(live, cutMs, context.calendars);
    if (live.state === 'finished' && first === null) return unchanged(live);
    const state = live.state === 'paused' ? 'paused' : first === null ? 'finished' : 'enabled';
    checkSize(live, context.calendars);
    return write(live, change, context, { state, cutMs });
  } catch (error) {
    // The job was good and what it stands on is not any more: it stops, visibly, and others go on.
    const reason = error instanceof CarillonError ? error.message : 'its times cannot be computed';
    return write(live, change, context, { state: 'error', stateReason: reason, cutMs });
  }
}

function moveState(
  live: Job,
  change: Change,
  kind: 'pause' | 'resume' | 'terminate',
  context: ChangeContext,
): Decision {
  const { state } = live;
  const cutMs = cutOf(live, change);
  if (kind === 'terminate') {
    return state === 'terminated' ? unchanged(live) : write(live, change, context, { state: 'terminated', cutMs });
  }
  if (kind === 'pause') {
    if (state === 'paused') return unchanged(live);
    if (state !== 'enabled') throw conflict(live, 'only an enabled job can be paused');
    return write(live, change, context, { state: 'paused', cutMs });
  }
  if (state === 'enabled') return unchanged(live);
  if (state !== 'paused' && state !== 'error') throw conflict(live, 'only a paused job can be resumed');
  // The cut stays the instant of the pause: what passed since then belongs to the resumed version, which is overdue.
  const cut = state === 'paused' ? live.cutMs : cutMs;
  const first = nextEffective(live, cut, context.calendars);
  return write(live, change, context, { state: first === null ? 'finished' : 'enabled', cutMs: cut });
}

function fire(live: Job, change: Change, context: ChangeContext): Decision {
  if (live.state === 'terminated' || live.state === 'error') throw conflict(live, 'it cannot be fired');
  const { fired = [] } = live;
  if (fired.some(({ id }) => id === change.id)) {
    return {
      outcome: { ok: true, result: 'fired', version: live.version, state: live.state },
      next: null,
      repeated: true,
    };
  }
  const next: Job = {
    ...live,
    fired: [...fired.slice(1 - FIRES_KEPT), { id: change.id, atMs: change.atMs }],
    position: context.position,
    lastChange: { id: change.id, result: 'fired' },
  };
  return { outcome: lastOutcome(next), next };
}
