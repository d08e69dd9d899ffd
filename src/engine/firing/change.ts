import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import { inheritedT } from '../rebuild/lost.ts';
import { cursorKey, forgetFired, inheritCursor, inheritedFired, noteFired } from './cursors.ts';
import { type Change, FLIGHT, IDLE, type Live, newLive } from './entries.ts';
import { mayComeLate, recallLeft } from './left.ts';
import { place, settle, standFirst } from './movement.ts';
import type { Fired, Segment } from './plan.ts';
import type { SlotState } from './slot-state.ts';

/**
 * Applies a new version: times up to the cut stay with the version before, later ones belong to the new one, except those
 * that were fired already. An entry whose triggers are on the way takes it up when they are acknowledged.
 */
export function applyChange(slot: SlotState, change: Change): void {
  const found = slot.entries.find(change.shard, change.number);
  const live = found < 0 ? null : slot.entries.live[found]!;
  if (live !== null && slot.entries.state[found] === FLIGHT) {
    change.hold ??= change.offset < 0 ? null : slot.holds.hold(change.offset);
    live.deferred.push(change);
    slot.entries.plan[found] = null;
    return;
  }
  if (live !== null && change.version <= live.version) {
    if (live.takenFromMs !== NO_OCCURRENCE) payLate(slot, found, live, change);
    finishChange(slot, found, change);
    return;
  }
  const left = live === null ? recallLeft(slot, change.shard, change.number) : null;
  if (left !== null && change.version <= left.version) {
    const back = comeBack(slot, change.shard, change.number, left);
    payLate(slot, back, left, change);
    finishChange(slot, back, change);
    return;
  }
  const entry = live === null ? slot.entries.make(change.shard, change.number, newLive(0)) : found;
  follow(slot, entry, change, live !== null);
  finishChange(slot, entry, change);
}

/** A job that had left the wheel: it goes on after all that was fired. */
function comeBack(slot: SlotState, shard: number, number: number, live: Live): number {
  const plan = live.current!;
  const afterMs = firedToMs(slot, shard, number) - plan.schedule.offsetMs;
  live.segments = [{ plan, afterMs, untilMs: Number.POSITIVE_INFINITY, fired: [] }];
  const entry = slot.entries.make(shard, number, live);
  slot.entries.scoredMs[entry] = slot.options.clock.wallMs();
  standFirst(slot, entry);
  return entry;
}

/** Effective time up to which everything of a job without an entry was fired, UTC ms. */
export function firedToMs(slot: SlotState, shard: number, number: number): number {
  const inherited = slot.inherited.get(cursorKey(shard, number));
  if (inherited !== undefined) return inherited.fromMs;
  if (!slot.running) return inheritedT(slot, shard);
  return Math.min(slot.wheel.drainedToMs, slot.shards.get(shard)?.horizonMs ?? slot.mark.t);
}

function follow(slot: SlotState, entry: number, change: Change, known: boolean): void {
  const live = slot.entries.live[entry]!;
  const { cutMs, plan } = change;
  const before = known ? endedAt(slot, entry, live, cutMs) : unknownBefore(slot, change);
  const segments = before.segments;
  const fired = before.fired.filter((one) => firedAfter(one, cutMs));
  const former = known ? live.current : change.former;
  if (former !== null && plan !== null && plan.schedule.offsetMs > former.schedule.offsetMs) {
    // With a longer spread a time that the version before had by the cut would lie after the cut: it is not owed again.
    fired.push({ schedule: former.schedule, fromMs: 0, toMs: cutMs });
  }
  if (plan !== null) {
    const afterMs = Math.max(cutMs, known ? 0 : paidAfterMs(slot, change)) - plan.schedule.offsetMs;
    segments.push({ plan, afterMs, untilMs: Number.POSITIVE_INFINITY, fired });
  }
  live.version = change.version;
  live.cutMs = cutMs;
  live.current = plan;
  live.segments = segments;
  // A scan that found the version before its message: the message will tell nothing that is not known.
  live.takenFromMs = change.offset < 0 && mayComeLate(slot, cutMs) ? cutMs : NO_OCCURRENCE;
  live.late = null;
  slot.entries.scoredMs[entry] = slot.options.clock.wallMs();
  standFirst(slot, entry);
  // Where nothing of this version is owed, what was fired after its cut is kept for the next one.
  live.fired = plan === null || live.segments.length === 0 ? fired : [];
  if (change.ended === true) {
    live.fired = [];
    forgetFired(slot, entry);
  } else if (plan === null && fired.length > 0) {
    noteFired(slot, entry, lastFiredMs(slot, fired));
  }
}

/** Effective time of the last of these times, UTC ms. */
function lastFiredMs(slot: SlotState, fired: readonly Fired[]): number {
  const nowMs = slot.options.clock.wallMs();
  const last = fired.map(({ schedule, toMs }) => {
    return schedule.last(Math.min(toMs, nowMs) - schedule.offsetMs, 0) + schedule.offsetMs;
  });
  return Math.max(...last);
}

/**
 * What an owner before has left of a job that has no entry, UTC ms: what a job that is resumed had published after the cut of its
 * pause, or how far this very version was paid behind a cursor.
 */
function paidAfterMs(slot: SlotState, { shard, number, version }: Change): number {
  const cursor = slot.inherited.get(cursorKey(shard, number));
  return cursor !== undefined && (cursor.reason === 'paused' || version <= (cursor.version ?? 0)) ? cursor.fromMs : 0;
}

/** Whether any of these times lies after a cut. */
function firedAfter({ schedule, fromMs, toMs }: Fired, cutMs: number): boolean {
  const next = schedule.next(Math.max(cutMs, fromMs - 1) - schedule.offsetMs);
  return next !== NO_OCCURRENCE && next + schedule.offsetMs <= toMs;
}

/** What a known entry owes up to a cut, and what it has fired. */
function endedAt(slot: SlotState, entry: number, live: Live, cutMs: number): { segments: Segment[]; fired: Fired[] } {
  const { entries } = slot;
  const nominalMs = entries.nominalMs[entry]!;
  const last = live.segments.at(-1);
  const inForce = last !== undefined && last.plan === live.current;
  const fired = inForce ? [...last.fired, ...live.fired] : [...live.fired];
  const schedule = live.current?.schedule;
  if (schedule !== undefined) {
    // All of the version in force before the place where it stands (or will begin) was fired.
    let toMs = Number.POSITIVE_INFINITY;
    if (nominalMs !== NO_OCCURRENCE && last !== undefined) {
      toMs = live.segments.length === 1 ? entries.effectiveMs[entry]! - 1 : last.afterMs + schedule.offsetMs;
    }
    fired.push({ schedule, fromMs: live.cutMs + 1, toMs });
  }
  const segments: Segment[] = [];
  for (const [index, segment] of live.segments.entries()) {
    const afterMs = index === 0 && nominalMs !== NO_OCCURRENCE ? nominalMs - 1 : segment.afterMs;
    segments.push({ ...segment, afterMs, untilMs: Math.min(segment.untilMs, cutMs) });
  }
  return { segments, fired };
}

/** The same for a job that has no entry: all that the version before had up to a known time was fired. */
function unknownBefore(slot: SlotState, change: Change): { segments: Segment[]; fired: Fired[] } {
  const { former, cutMs } = change;
  const before = inheritedFired(slot, change.shard, change.number);
  if (former === null) return { segments: [], fired: before };
  const { schedule } = former;
  const firedTo = Math.max(former.cutMs, firedToMs(slot, change.shard, change.number));
  const owed = { plan: former, afterMs: firedTo - schedule.offsetMs, untilMs: cutMs, fired: [] };
  return {
    segments: firedTo < cutMs ? [owed] : [],
    fired: firedTo > cutMs ? [...before, { schedule, fromMs: cutMs + 1, toMs: firedTo }] : before,
  };
}

/**
 * A message about a version that a scan had found already (or one before it): what the scan could not know is owed before the
 * version in force: the version before up to the cut, and the message's own version between its cut and what the scan took for
 * fired, or the next version's cut. Of several such messages the first one's former version is the one that an owner had fired
 * beyond its end, since none had heard of the others.
 */
function payLate(slot: SlotState, entry: number, live: Live, change: Change): void {
  const { former, plan, cutMs } = change;
  const takenFrom = live.takenFromMs;
  const same = change.version === live.version;
  const nominalMs = slot.entries.nominalMs[entry]!;
  const [first] = live.segments;
  if (first !== undefined && nominalMs !== NO_OCCURRENCE) first.afterMs = nominalMs - 1;
  const older = live.segments.filter((segment) => segment.plan !== live.current);
  const owed: Segment[] = [];
  const fired = live.late === null ? [] : [...live.late.fired, ...firedOfLate(slot, entry, live, cutMs)];
  if (live.late === null && former !== null) {
    // A version before that is still at work has fired what lies before the place where it stands.
    const toMs = older.length > 0 ? Math.min(takenFrom, slot.entries.effectiveMs[entry]! - 1) : takenFrom;
    fired.push({ schedule: former.schedule, fromMs: cutMs + 1, toMs });
    if (takenFrom < cutMs) {
      const afterMs = Math.max(former.cutMs, takenFrom) - former.schedule.offsetMs;
      owed.push({ plan: former, afterMs, untilMs: cutMs, fired: [] });
    }
  }
  for (const segment of older) segment.untilMs = Math.min(segment.untilMs, cutMs);
  live.late = { fired, own: null };
  const untilMs = same ? takenFrom : live.cutMs;
  if (plan !== null && cutMs < untilMs) {
    const own = same ? (live.current ?? plan) : plan;
    live.late.own = { plan: own, afterMs: cutMs - own.schedule.offsetMs, untilMs, fired: [...fired] };
    owed.push(live.late.own);
  }
  if (same) {
    live.takenFromMs = NO_OCCURRENCE;
    live.late = null;
  }
  live.segments = [...older, ...owed, ...live.segments.filter((segment) => segment.plan === live.current)];
  standFirst(slot, entry);
}

/** What the last version that came late has fired beyond the cut of the next one. */
function firedOfLate(slot: SlotState, entry: number, { late, segments }: Live, cutMs: number): Fired[] {
  const own = late?.own ?? null;
  if (own === null) return [];
  const at = segments.indexOf(own);
  // It is paid, or stands here, or has not begun.
  const toMs = at < 0 ? own.untilMs : at === 0 ? slot.entries.effectiveMs[entry]! - 1 : cutMs;
  return toMs > cutMs ? [{ schedule: own.plan.schedule, fromMs: cutMs + 1, toMs }] : [];
}

/** Everything but the times: its place in the fast path, the answer, where the entry waits. */
function finishChange(slot: SlotState, entry: number, change: Change): void {
  const live = slot.entries.live[entry]!;
  if (change.hold !== null) {
    if (live.hold === null) live.hold = change.hold;
    else change.hold.open = false;
  }
  if (change.done !== null) live.whenCurrent.push(change.done);
  if (slot.running && slot.inherited.size > 0) inheritCursor(slot, entry);
  settle(slot, entry, change.offset);
  if (!slot.running) return;
  slot.wheel.cancel(entry);
  slot.entries.state[entry] = IDLE;
  place(slot, entry);
}
