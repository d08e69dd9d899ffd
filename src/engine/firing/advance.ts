import { LIMITS } from '../../core/limits.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import type { MemberScore } from '../../ports/trigger-store.ts';
import type { Batch, Item } from './batch.ts';
import { followCursor } from './cursors.ts';
import { IDLE, type Live, READY, WAITING } from './entries.ts';
import { applyDeferred } from './fast-path.ts';
import { place, queueScore, remove, settle, stand } from './movement.ts';
import { alone, type EndedJob, type ShardRun } from './shard-run.ts';
import type { SlotState } from './slot-state.ts';

/** After the acknowledgement, and never before it (I2): jobs move on, lateness is recorded. */
export function acknowledge(slot: SlotState, batch: Batch): void {
  const nowMs = slot.options.clock.wallMs();
  moveOnPlain(slot, batch, nowMs);
  acknowledgeItems(slot, batch.items, nowMs, batch.plainCount);
  tellLateness(slot, batch, nowMs);
}

/** The same for some of a batch, whose others have failed; `items` are of all its triggers. */
export function acknowledgeSome(slot: SlotState, batch: Batch, items: readonly Item[]): void {
  const nowMs = slot.options.clock.wallMs();
  acknowledgeItems(slot, items, nowMs, 0);
  tellLateness(slot, batch, nowMs);
}

function acknowledgeItems(slot: SlotState, items: readonly Item[], nowMs: number, others: number): void {
  let n = others;
  for (const item of items) {
    n += item.count;
    if (item.late > 0) slot.count('misfires_total', { result: 'fired' }, item.late);
    if (item.dropped > 0) slot.count('misfires_total', { result: 'dropped' }, item.dropped);
    moveOn(slot, item, nowMs);
  }
  slot.published += n;
  slot.count('triggers_total', { result: 'published' }, n);
}

function tellLateness(slot: SlotState, batch: Batch, nowMs: number): void {
  const { telemetry } = slot.options;
  for (const { cluster, effectiveMs, n: triggers } of batch.runs) {
    telemetry.lateness(nowMs - effectiveMs, triggers, { cluster, slot: slot.name });
  }
}

/** The usual case, on the hot path: entries whose next time lies inside the horizon go back into the wheel. */
function moveOnPlain(slot: SlotState, batch: Batch, nowMs: number): void {
  const { entries, wheel, horizonMs } = slot;
  const refreshMs = nowMs - LIMITS.scoreRefreshMs;
  for (let i = 0; i < batch.plainCount; i += 1) {
    const entry = batch.plainEntry(i);
    const nominalMs = batch.plainAfterMs(i);
    const plan = entries.plan[entry]!;
    const within = plan !== null && nominalMs !== NO_OCCURRENCE && nominalMs + plan.offsetMs <= horizonMs;
    if (within && entries.scoredMs[entry]! > refreshMs) {
      const effectiveMs = nominalMs + plan.offsetMs;
      entries.nominalMs[entry] = nominalMs;
      entries.effectiveMs[entry] = effectiveMs;
      if (wheel.add(entry, effectiveMs)) {
        entries.state[entry] = WAITING;
      } else {
        entries.state[entry] = READY;
        slot.ready.push(entry);
      }
    } else {
      moveOn(slot, plainItem(slot, batch, i), nowMs);
    }
  }
}

/** An item like those of all other triggers: its entry has not moved since the batch was filled. */
export function plainItem(slot: SlotState, batch: Batch, at: number): Item {
  const entry = batch.plainEntry(at);
  const nominalMs = batch.plainAfterMs(at);
  const { topic, head, offsetMs } = slot.entries.live[entry]!.segments[0]!.plan;
  const after = nominalMs === NO_OCCURRENCE ? null : { segment: 0, nominalMs, effectiveMs: nominalMs + offsetMs };
  const lastMs = slot.entries.effectiveMs[entry]!;
  const { partition } = head;
  return { entry, topic, partition, count: 1, behind: at, lastMs, after, late: 0, dropped: 0, restMs: 0 };
}

function moveOn(slot: SlotState, item: Item, nowMs: number): void {
  const { entry } = item;
  const live = slot.entries.live[entry]!;
  slot.entries.state[entry] = IDLE;
  if (live.run !== null) {
    remove(slot, entry);
    return;
  }
  stand(slot, entry, item.after);
  followCursor(slot, entry);
  if (applyDeferred(slot, entry)) return;
  settle(slot, entry);
  place(slot, entry, item.restMs > 0 ? nowMs + item.restMs : undefined);
}

/**
 * Writes the scores of jobs whose next time lies beyond the horizon, in batches, all shards at the same time: a store that takes
 * calls as they come gets them as one. An entry leaves when the store says that its score is above H; one that a scan has
 * overtaken stays. Finished ones go to the recorder; only where that is far behind, 0 is written for them, so that their entries
 * can leave. Answers how many were written.
 */
export async function flushWriteBacks(slot: SlotState): Promise<number> {
  const waiting = [...slot.shards.values()].filter((shard) => shard.queue.length > 0 && !shard.lost);
  const flushed = await Promise.allSettled(waiting.map((shard) => flushShard(slot, shard)));
  let written = 0;
  for (const one of flushed) {
    if (one.status === 'rejected') throw one.reason;
    written += one.value;
  }
  return written;
}

/** Writes what waits now; what comes meanwhile waits for others. */
async function flushShard(slot: SlotState, shard: ShardRun): Promise<number> {
  let written = 0;
  for (let left = shard.queue.length; left > 0 && slot.running; left -= LIMITS.writeBackMembers) {
    written += await alone(shard, () => writeBack(slot, shard));
  }
  return written;
}

interface Written {
  entry: number;
  live: Live;
  version: number;
  score: number;
}

async function writeBack(slot: SlotState, shard: ShardRun): Promise<number> {
  const { entries, options } = slot;
  const batch: Written[] = [];
  const scores: MemberScore[] = [];
  for (const entry of shard.queue.splice(0, LIMITS.writeBackMembers)) {
    const live = entries.live[entry];
    if (live == null || entries.queued[entry] === 0 || entries.shard[entry] !== shard.id) continue;
    entries.queued[entry] = 0;
    const score = entries.nominalMs[entry] === NO_OCCURRENCE ? 0 : entries.effectiveMs[entry]!;
    // A former version still owes: the score of the version in force is right as it is.
    if (live.current === null || live.cursor !== null || (score > 0 && live.segments[0]!.plan !== live.current))
      continue;
    if (score === 0 && shard.ended.length < LIMITS.endedMembers) {
      shard.ended.push({ ...endedJob(entries.number[entry]!, live), entry });
      continue;
    }
    batch.push({ entry, live, version: live.version, score });
    scores.push({ number: entries.number[entry]!, version: live.version, score });
  }
  if (scores.length === 0) return 0;
  try {
    const result = await options.stores.triggers.writeBack(shard.id, options.epoch, scores);
    if (!slot.running) return 0;
    if (result.status === 'stale') {
      slot.lose(`epoch ${result.epoch} holds shard ${shard.id}`);
      return 0;
    }
    takeWritten(slot, shard, batch, new Set(result.within), new Set(result.missing));
    slot.count('write_backs_total', {}, scores.length);
    if (result.missing.length > 0) slot.count('write_backs_missing_total', {}, result.missing.length);
    return scores.length;
  } catch (error) {
    if (!slot.running) return 0;
    for (const { entry, live } of batch) if (entries.live[entry] === live) queueScore(slot, entry);
    throw error;
  }
}

function endedJob(number: number, { version, current }: Live): EndedJob {
  return current?.once === true ? { number, version, oneShotOf: current.cluster } : { number, version };
}

/** A member that is missing has another version, which a message will tell, or is lost: until that is known the entry stays. */
function takeWritten(
  slot: SlotState,
  shard: ShardRun,
  batch: readonly Written[],
  within: ReadonlySet<number>,
  missing: ReadonlySet<number>,
): void {
  const { entries } = slot;
  const nowMs = slot.options.clock.wallMs();
  for (const [index, { entry, live, version, score }] of batch.entries()) {
    if (entries.live[entry] !== live || live.version !== version) continue;
    if (score > 0 && missing.has(index)) {
      shard.doubtful.add(entries.number[entry]!);
      continue;
    }
    entries.scoredMs[entry] = nowMs;
    if (score === 0) {
      if (shard.ended.length < LIMITS.shardJobs) shard.ended.push(endedJob(entries.number[entry]!, live));
      else shard.finished = true;
      if (entries.nominalMs[entry] === NO_OCCURRENCE) remove(slot, entry);
      continue;
    }
    // No scan would find it; a store that has lost H does not say so.
    const near = within.has(index) || score <= shard.horizonMs;
    if (!near && entries.state[entry] === WAITING && entries.effectiveMs[entry] === score) remove(slot, entry);
  }
}
