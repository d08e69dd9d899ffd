import { LIMITS } from '../../core/limits.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import { closeCursor, followCursor, keepsFired, needsNoCursor } from './cursors.ts';
import { IDLE, type Live, READY, WAITING } from './entries.ts';
import { firedBeyond } from './fired.ts';
import { rememberLeft } from './left.ts';
import { type Plan, type Position, positionAfter } from './plan.ts';
import type { SlotState } from './slot-state.ts';

/**
 * How an entry moves: `stand` sets its next occurrence, `settle` ends what hung on the former one (its place in the fast
 * path, its cursor, answers), `place` puts it where it waits. Whoever changes the segments of an entry calls the three in
 * this order; an entry that is FLIGHT is moved by its acknowledgement only.
 */
export function stand(slot: SlotState, entry: number, at: Position | null): void {
  const { entries } = slot;
  const live = entries.live[entry]!;
  if (at === null) live.segments = [];
  else if (at.segment > 0) live.segments.splice(0, at.segment);
  const [segment] = live.segments;
  if (at !== null && segment !== undefined && segment.fired.length > 0) {
    // What another version has fired before here cannot come up again.
    segment.fired = segment.fired.filter((one) => one.toMs >= at.nominalMs + one.schedule.offsetMs);
  }
  entries.nominalMs[entry] = at === null ? NO_OCCURRENCE : at.nominalMs;
  entries.effectiveMs[entry] = at === null ? NO_OCCURRENCE : at.effectiveMs;
}

/** Stands the entry at the first owed occurrence of its segments. */
export function standFirst(slot: SlotState, entry: number): void {
  stand(slot, entry, positionAfter(slot.entries.live[entry]!.segments));
}

/**
 * Whether all is paid that only the fast path tells, when the entry stands at `segment` with its next time at `effectiveMs`
 * (null: it has none): nothing at or before the T of the last commit, and nothing of a version before the one in force.
 */
export function hasPaid(slot: SlotState, live: Live, segment: number, effectiveMs: number | null): boolean {
  return effectiveMs === null || (effectiveMs > slot.mark.t && live.segments[segment]!.plan === live.current);
}

/**
 * Whether a cursor answers for all that is owed from `segment` on: it tells from when, but not by which version, and the next
 * owner finds only the one in force in the store. Of a version before it knows by the message, which must stay uncovered.
 */
export function cursorCovers(live: Live, segment: number): boolean {
  const { cursor, segments, current } = live;
  if (cursor === null || segments[segment] === undefined) return cursor !== null;
  return segments[segment].plan === current && firedBeyond(live, cursor.fromMs) !== null;
}

/** `offset` is that of the message that moved the entry, if one did: it holds its place while it is not paid. */
export function settle(slot: SlotState, entry: number, offset = -1): void {
  const live = slot.entries.live[entry]!;
  const next = slot.entries.nominalMs[entry] === NO_OCCURRENCE ? null : slot.entries.effectiveMs[entry]!;
  const paid = hasPaid(slot, live, 0, next);
  const needless = live.cursor !== null && needsNoCursor(slot, next, slot.mark.t);
  if (needless && !keepsFired(live.cursor!, live.current, live.cutMs)) closeCursor(slot, entry);
  // A change may owe times before the place where a cursor stands: a cursor that answers for them goes back to them.
  else if (next !== null && next <= (live.cursor?.fromMs ?? 0) && cursorCovers(live, 0)) followCursor(slot, entry);
  if (paid || cursorCovers(live, 0)) {
    if (live.hold !== null) live.hold.open = false;
    live.hold = null;
  } else if (live.hold === null && offset >= 0) {
    live.hold = slot.holds.hold(offset);
  }
  if (live.whenCurrent.length > 0 && (live.segments.length === 0 || live.segments[0]!.plan === live.current)) {
    for (const run of live.whenCurrent.splice(0)) run();
  }
}

/**
 * Into the wheel, or among the ready; beyond the horizon also towards the store, and of a lost shard nowhere: its rebuild places
 * it. `atMs` differs where a pause is due.
 */
export function place(slot: SlotState, entry: number, atMs = slot.entries.effectiveMs[entry]!): void {
  const { entries, wheel } = slot;
  const live = entries.live[entry]!;
  entries.plan[entry] = null;
  wheel.cancel(entry);
  if (entries.nominalMs[entry] === NO_OCCURRENCE) {
    rest(slot, entry);
    return;
  }
  const shard = slot.shards.get(entries.shard[entry]!);
  const beyond = entries.effectiveMs[entry]! > (shard?.horizonMs ?? 0);
  if (beyond && shard?.lost === true && live.cursor === null) {
    entries.state[entry] = WAITING;
    return;
  }
  entries.plan[entry] = shard?.lost === true ? null : plainPlan(live);
  if (wheel.add(entry, atMs)) {
    entries.state[entry] = WAITING;
  } else {
    entries.state[entry] = READY;
    slot.ready.push(entry);
  }
  if (live.cursor !== null || live.segments[0]!.plan !== live.current) return;
  if (beyond || slot.options.clock.wallMs() - entries.scoredMs[entry]! >= LIMITS.scoreRefreshMs) {
    queueScore(slot, entry);
  }
}

/** As `Entries.plan`. */
function plainPlan({ segments, current, hold, cursor, run, deferred }: Live): Plan | null {
  const alone = segments.length === 1 && segments[0]!.plan === current && segments[0]!.fired.length === 0;
  return alone && hold === null && cursor === null && run === null && deferred.length === 0 ? current : null;
}

/** Nothing is owed any more: a job in force is finished, which the store must learn; another entry goes, if it may. */
function rest(slot: SlotState, entry: number): void {
  const live = slot.entries.live[entry]!;
  slot.entries.state[entry] = IDLE;
  if (live.current !== null) queueScore(slot, entry);
  else if (live.fired.length === 0) remove(slot, entry);
}

export function queueScore(slot: SlotState, entry: number): void {
  const shard = slot.shards.get(slot.entries.shard[entry]!);
  if (shard === undefined || slot.entries.queued[entry] === 1) return;
  slot.entries.queued[entry] = 1;
  shard.queue.push(entry);
}

/** Takes an entry out of everything. */
export function remove(slot: SlotState, entry: number): void {
  const live = slot.entries.live[entry]!;
  slot.wheel.cancel(entry);
  if (live.cursor !== null) closeCursor(slot, entry);
  if (live.hold !== null) live.hold.open = false;
  for (const run of live.whenCurrent.splice(0)) run();
  if (live.run === null) rememberLeft(slot, slot.entries.shard[entry]!, slot.entries.number[entry]!, live);
  slot.entries.release(entry);
}
