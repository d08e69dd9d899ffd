import { isCode } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Cursor } from '../../core/messages.ts';
import { encodeMessage, PROGRESS_KEY } from '../../core/messages.ts';
import { TOPICS } from '../../core/topics.ts';
import type { BusMessage, TopicMessages } from '../../ports/bus.ts';
import { laggingAt } from '../rebuild/lost.ts';
import type { Batch } from './batch.ts';
import { keyOf, movedCursor, needsNoCursor, openCursor } from './cursors.ts';
import { READY } from './entries.ts';
import { cursorCovers, settle } from './movement.ts';
import type { SlotState, Watermark } from './slot-state.ts';

/**
 * Where (T, O) may be once `batch` is acknowledged (null: as things stand). T is below everything that is owed and neither
 * acknowledged nor behind a cursor: what waits in a full queue, what is on the way, what the scans have not reached. What is
 * in the wheel lies after the wheel's own time, which follows the clock, so an idle slot's T moves on.
 */
function nextMark(slot: SlotState, batch: Batch | null): Watermark {
  const { durable } = slot;
  const o = slot.holds.covered(batch);
  if (!slot.running) return { ...durable, o: durable.o, n: slot.mark.n + 1 };
  let t = Math.min(slot.wheel.drainedToMs, slot.options.clock.wallMs(), slot.horizonMs);
  for (let i = 0; i < slot.ready.length; i += 1) t = Math.min(t, owedSince(slot, slot.ready.at(i)) - 1);
  for (const other of slot.batches) if (other !== batch) t = Math.min(t, other.oldestMs - 1);
  if (batch !== null) t = Math.min(t, batch.plainNextMs - 1);
  for (const { entry, after } of batch?.items ?? []) {
    if (after !== null && slot.entries.live[entry]!.cursor === null) t = Math.min(t, after.effectiveMs - 1);
  }
  return { t: Math.max(durable.t, t), o, n: slot.mark.n + 1 };
}

/** Effective time since which a ready entry owes without a cursor; Infinity for one that is not to be waited for. */
function owedSince(slot: SlotState, entry: number): number {
  const live = slot.entries.live[entry];
  const counts = slot.entries.state[entry] === READY && live?.cursor === null && live.run === null;
  return counts ? slot.entries.effectiveMs[entry]! : Number.POSITIVE_INFINITY;
}

/**
 * Commits on the lane: triggers of a batch (exactly-once) or none, cursors and progress, as one. There is one commit at a
 * time. Errors are the lane's; then nothing of it counts.
 */
export async function commit(slot: SlotState, batch: Batch | null): Promise<void> {
  const running = commitOnLane(slot, batch);
  const done = running.catch(() => {});
  slot.committing = done;
  try {
    await running;
  } finally {
    slot.commits += 1;
    if (slot.committing === done) slot.committing = null;
  }
}

/**
 * What is committed must be at or before the T that is committed with it, or a new owner would fire it again. So a job that
 * holds T back, since it owes a time at or before one in the batch, gets a cursor of its own, and T passes it.
 */
function passBehind(slot: SlotState, batch: Batch): void {
  const { entries } = slot;
  let upToMs = batch.plainLastMs;
  for (const { entry, lastMs } of batch.items) {
    const live = entries.live[entry]!;
    if (live.run === null && live.cursor === null) upToMs = Math.max(upToMs, lastMs);
  }
  const waiting = Array.from({ length: slot.ready.length }, (_, i) => slot.ready.at(i));
  for (const entry of waiting) {
    if (owedSince(slot, entry) > upToMs) continue;
    openCursor(slot, entry, 'behind', upToMs);
    settle(slot, entry);
  }
  for (const { entry, after } of batch.items) {
    const live = entries.live[entry]!;
    if (live.run !== null || live.cursor !== null || after === null || after.effectiveMs > upToMs) continue;
    openCursor(slot, entry, 'behind', upToMs);
    if (live.hold !== null && cursorCovers(live, after.segment)) live.hold.paidBy = batch;
  }
}

async function commitOnLane(slot: SlotState, batch: Batch | null): Promise<void> {
  if (batch !== null) passBehind(slot, batch);
  const mark = nextMark(slot, batch);
  const cursors = slot.cursors;
  slot.cursors = new Map();
  slot.moved = false;
  slot.mark = mark;
  const begunMs = slot.options.clock.monotonicMs();
  const paid = batch === null ? new Map<string, Cursor | null>() : paidCursors(slot, batch, mark.t);
  try {
    await slot.lane!.commit(records(slot, batch, mark, new Map([...cursors, ...paid])));
    slot.durable = mark;
    slot.provenMs = begunMs;
    slot.committedMs = slot.options.clock.monotonicMs();
  } catch (error) {
    for (const [key, cursor] of cursors) if (!slot.cursors.has(key)) slot.cursors.set(key, cursor);
    slot.moved = true;
    slot.mark = { ...slot.durable, n: mark.n };
    if (isCode(error, 'lane-fenced')) slot.lose('another owner has taken the lane');
    throw error;
  }
}

/** What becomes of the cursors of a batch's jobs with its acknowledgement. */
function paidCursors(slot: SlotState, batch: Batch, t: number): Map<string, Cursor | null> {
  const paid = new Map<string, Cursor | null>();
  for (const { entry, after } of batch.items) {
    const { cursor, version } = slot.entries.live[entry]!;
    if (cursor === null) continue;
    const through = needsNoCursor(slot, after?.effectiveMs ?? null, t);
    paid.set(
      keyOf(slot, entry),
      after === null || through ? null : { ...movedCursor(cursor, after.effectiveMs), version },
    );
  }
  return paid;
}

function records(
  slot: SlotState,
  batch: Batch | null,
  mark: Watermark,
  cursors: ReadonlyMap<string, Cursor | null>,
): TopicMessages[] {
  const { epoch, incarnation } = slot.options;
  const { partition } = slot;
  const lagging = laggingAt(slot, mark.t);
  const { t, o, n } = mark;
  const { lineages } = slot;
  const value = encodeMessage({
    v: 1,
    epoch,
    incarnation,
    t,
    o,
    n,
    lineages,
    ...(lagging === null ? {} : { lagging }),
  });
  const all: TopicMessages[] = [...(batch?.triggers.toMessages() ?? [])];
  if (cursors.size > 0) {
    const messages: BusMessage[] = [...cursors].map(([key, cursor]) => ({
      partition,
      key,
      value: cursor === null ? null : encodeMessage(cursor),
    }));
    all.push({ topic: TOPICS.cursors, messages });
  }
  all.push({ topic: TOPICS.progress, messages: [{ partition, key: PROGRESS_KEY, value }] });
  return all;
}

/**
 * Commits progress where something was acknowledged or covered since the last time, and once in a while when the slot is
 * idle. Answers whether it did. In an exactly-once slot most progress goes with the triggers themselves.
 */
export async function commitProgress(slot: SlotState, atOnce = false): Promise<boolean> {
  if (!slot.running || slot.committing !== null) return false;
  const next = nextMark(slot, null);
  const nothing = !slot.moved && slot.cursors.size === 0 && next.o === slot.durable.o;
  if (nothing && next.t === slot.durable.t) return false;
  const sinceMs = slot.options.clock.monotonicMs() - slot.committedMs;
  const idleMs = slot.shards.size === 0 ? LIMITS.progressEmptyMs : LIMITS.progressIdleMs;
  if (!atOnce && sinceMs < (nothing ? idleMs : LIMITS.progressEveryMs)) return false;
  try {
    await commit(slot, null);
    return true;
  } catch (error) {
    if (slot.running) throw error;
    return false;
  }
}
