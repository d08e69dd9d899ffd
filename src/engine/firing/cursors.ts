import type { Cursor } from '../../core/messages.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import type { Live } from './entries.ts';
import { firedAsNamed, firedBeyond } from './fired.ts';
import type { Fired, Plan } from './plan.ts';
import type { SlotState } from './slot-state.ts';

/**
 * A cursor is a low-water mark of one job's own: while it stands, the job owes everything after `fromMs`, whatever T says,
 * so T passes and nothing is written as it moves. It is committed together with T: first when it opens, then as it is paid,
 * last as a tombstone, when nothing at or before T is owed any more and T answers for the job again. `toMs` is how far the
 * make-up reached when it opened, for people.
 */
export function cursorKey(shard: number, number: number): string {
  return `${shard}-${number}`;
}

export function keyOf(slot: SlotState, entry: number): string {
  return cursorKey(slot.entries.shard[entry]!, slot.entries.number[entry]!);
}

export function openCursor(slot: SlotState, entry: number, reason: Cursor['reason'], toMs: number): void {
  const live = slot.entries.live[entry]!;
  if (live.cursor !== null) return;
  const [shard, number] = [slot.entries.shard[entry]!, slot.entries.number[entry]!];
  slot.entries.plan[entry] = null;
  const fromMs = slot.entries.effectiveMs[entry]! - 1;
  live.cursor = naming(live, { v: 1, shard, number, fromMs, toMs, reason });
  write(slot, entry, live.cursor);
  slot.count('cursors_opened_total', { reason });
}

function naming(live: Live, { fired: _, ...rest }: Cursor): Cursor {
  const cursor = { ...rest, version: live.version };
  const fired = firedBeyond(live, cursor.fromMs);
  return fired === null || fired.length === 0 ? cursor : { ...cursor, fired };
}

/** What versions before had published, as the cursor of a job without an entry says. */
export function inheritedFired(slot: SlotState, shard: number, number: number): Fired[] {
  if (slot.inherited.size === 0) return [];
  return firedAsNamed(slot.inherited.get(cursorKey(shard, number))?.fired ?? []);
}

/** The job does not fire any more, and had times after its cut published: the next owner must know of them at its resume. */
export function noteFired(slot: SlotState, entry: number, firedToMs: number): void {
  const live = slot.entries.live[entry]!;
  const [shard, number] = [slot.entries.shard[entry]!, slot.entries.number[entry]!];
  const fromMs = Math.max(firedToMs, live.cursor?.reason === 'paused' ? live.cursor.fromMs : 0);
  live.cursor = { v: 1, shard, number, fromMs, toMs: fromMs, reason: 'paused' };
  write(slot, entry, live.cursor);
}

/** The job has ended for good. */
export function forgetFired(slot: SlotState, entry: number): void {
  const key = keyOf(slot, entry);
  const live = slot.entries.live[entry]!;
  if ((live.cursor ?? slot.inherited.get(key))?.reason !== 'paused') return;
  slot.inherited.delete(key);
  closeCursor(slot, entry);
}

/** Whether a cursor of a job that does not fire, with such a cut, must still be known at its resume. */
export function keepsFired(cursor: Cursor, current: Plan | null, cutMs: number): boolean {
  return cursor.reason === 'paused' && current === null && cutMs < cursor.fromMs;
}

/** T is past what the job owes, since its shard had a T of its own until now: a cursor tells what T does not. */
export function oweBehind(slot: SlotState, entry: number): void {
  const owes = slot.entries.nominalMs[entry] !== NO_OCCURRENCE && slot.entries.effectiveMs[entry]! <= slot.mark.t;
  if (owes) openCursor(slot, entry, 'behind', slot.mark.t);
}

/** The entry goes on with the cursor that the former owner left for its job, if there is one. */
export function inheritCursor(slot: SlotState, entry: number): void {
  const key = keyOf(slot, entry);
  const cursor = slot.inherited.get(key);
  const live = slot.entries.live[entry]!;
  if (cursor === undefined || (keepsFired(cursor, live.current, live.cutMs) && live.cursor === null)) return;
  slot.inherited.delete(key);
  live.cursor ??= cursor;
}

/** Cursors of a shard whose jobs turned out to owe nothing, or to be gone, end; the others' entries go on with them. */
export function closeInherited(slot: SlotState, shard: number): void {
  for (const [key, cursor] of slot.inherited) {
    if (cursor.shard !== shard) continue;
    const entry = slot.entries.find(shard, cursor.number);
    if (entry >= 0) {
      inheritCursor(slot, entry);
    } else if (cursor.reason !== 'paused') {
      slot.inherited.delete(key);
      slot.cursors.set(key, null);
      slot.moved = true;
    }
  }
}

/**
 * Whether a job whose next time is this (null: it has none) needs no cursor any more: nothing up to `t` is owed, and nothing
 * is due. While something is due the cursor stays, since the job may wait for its topic or its rate while T moves on.
 */
export function needsNoCursor(slot: SlotState, effectiveMs: number | null, t: number): boolean {
  return effectiveMs === null || effectiveMs > Math.max(t, slot.wheel.timeMs);
}

/** Everything before `effectiveMs` is paid. */
export function movedCursor(cursor: Cursor, effectiveMs: number): Cursor {
  return { ...cursor, fromMs: effectiveMs - 1, toMs: Math.max(cursor.toMs, effectiveMs - 1) };
}

/** The entry was paid up to its present place: the cursor follows. */
export function followCursor(slot: SlotState, entry: number): void {
  const live = slot.entries.live[entry]!;
  if (live.cursor === null || live.segments.length === 0) return;
  live.cursor = naming(live, movedCursor(live.cursor, slot.entries.effectiveMs[entry]!));
  write(slot, entry, live.cursor);
}

export function closeCursor(slot: SlotState, entry: number): void {
  slot.entries.live[entry]!.cursor = null;
  write(slot, entry, null);
}

function write(slot: SlotState, entry: number, cursor: Cursor | null): void {
  slot.cursors.set(keyOf(slot, entry), cursor);
  slot.moved = true;
}
