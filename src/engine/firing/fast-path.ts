import type { Cluster, JobRecord, JobState } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import { decodeMessage, type FastMessage } from '../../core/messages.ts';
import { decodeRecord } from '../../core/record.ts';
import type { BusRecord } from '../../ports/bus.ts';
import { answer } from './answers.ts';
import { applyChange } from './change.ts';
import { type Change, IDLE, newLive, READY } from './entries.ts';
import { failJob } from './finish.ts';
import { type Plan, planOf, targetOf } from './plan.ts';
import type { SlotState } from './slot-state.ts';

const RECORDS = 1_000;

/**
 * Reads what is there (waiting up to `maxWaitMs` for a first message) and applies it. Answers how many messages it was.
 * While many changes wait for triggers on the way, nothing is read: the topic keeps the rest. What was read and could not be
 * applied, since a store did not answer, stays in front of everything else.
 */
export async function readFast(slot: SlotState, maxWaitMs: number): Promise<number> {
  if (slot.reader === null || slot.holds.open >= LIMITS.deferredChanges) return 0;
  const { unapplied } = slot;
  if (unapplied.length === 0) unapplied.push(...(await slot.reader.read(maxWaitMs, RECORDS)));
  let applied = 0;
  for (let record = unapplied[0]; record !== undefined; record = unapplied[0]) {
    await applyRecord(slot, record);
    if (slot.phase === 'lost' || slot.phase === 'closed') return 0;
    slot.holds.position = record.offset + 1;
    unapplied.shift();
    applied += 1;
  }
  if (applied > 0) slot.options.wake?.();
  return applied;
}

async function applyRecord(slot: SlotState, record: BusRecord): Promise<void> {
  const message = record.value === null ? null : decodeMessage<FastMessage>(record.value);
  if (message === null) {
    slot.count('fast_messages_total', { result: 'unreadable' });
    slot.event('error', 'a message of the fast path cannot be read', { offset: record.offset });
    return;
  }
  const shard = slot.shards.get(message.shard);
  // A scan that runs may have seen the version before: its answer comes first.
  while (shard?.scanning) await shard.busy;
  const decoded = message.record === null ? null : decodeRecord(bytesOf(message.record));
  const former = message.former === null ? null : decodeRecord(bytesOf(message.former));
  if (message.fire === undefined) {
    const change = await changeOf(slot, message, decoded, former, record.offset);
    applyChange(slot, change);
  } else if (decoded !== null) {
    await fireOnce(slot, message, decoded, record.offset);
  }
  slot.count('fast_messages_total', { result: 'applied' });
}

function bytesOf(base64: string): Uint8Array {
  return Buffer.from(base64, 'base64');
}

async function changeOf(
  slot: SlotState,
  message: FastMessage,
  record: JobRecord | null,
  former: JobRecord | null,
  offset: number,
): Promise<Change> {
  const { shard, number, version, cutMs } = message;
  const done = doneOf(slot, message, record?.state ?? 'terminated');
  const plan = await planOrFail(slot, shard, number, record);
  const ended = record === null || record.state === 'terminated';
  return {
    shard,
    number,
    version,
    cutMs,
    plan,
    ended,
    former: await planOrNone(slot, former),
    offset,
    hold: null,
    done,
  };
}

function doneOf(slot: SlotState, message: FastMessage, state: JobState): (() => void) | null {
  const { id, replyTo, result, version } = message;
  if (replyTo === undefined) return null;
  return () =>
    answer(slot, {
      v: 1,
      id,
      replyTo,
      from: 'owner',
      ownerFollows: false,
      outcome: { ok: true, result, version, state },
    });
}

/** The plan of a job that fires; null for one that does not, and for one that cannot, which goes into the error state. */
export async function planOrFail(
  slot: SlotState,
  shard: number,
  number: number,
  record: JobRecord | null,
): Promise<Plan | null> {
  if (record === null) return null;
  await knowCluster(slot, record);
  return planNow(slot, shard, number, record);
}

/** Waits until the logical cluster of a record is known, if there is one. */
export async function knowCluster(slot: SlotState, record: JobRecord): Promise<void> {
  if (record.state === 'enabled') await clusterOf(slot, record.cluster);
}

/** As `planOrFail`, where the cluster is known: a scan takes up tens of thousands of jobs, none of which waits. */
export function planNow(slot: SlotState, shard: number, number: number, record: JobRecord): Plan | null {
  if (record.state !== 'enabled') return null;
  const cluster = slot.clusters.get(record.cluster);
  const { version } = record;
  if (cluster === undefined) {
    failJob(slot, { shard, number, version, reason: `the logical cluster "${record.cluster}" does not exist` });
    return null;
  }
  try {
    return planOf(record, cluster, slot.options.epoch);
  } catch (error) {
    failJob(slot, { shard, number, version, reason: error instanceof Error ? error.message : String(error) });
    return null;
  }
}

/** The version before: one that cannot fire never did. */
async function planOrNone(slot: SlotState, record: JobRecord | null): Promise<Plan | null> {
  if (record === null || record.state !== 'enabled') return null;
  const cluster = await clusterOf(slot, record.cluster);
  try {
    return cluster === null ? null : planOf(record, cluster, slot.options.epoch);
  } catch {
    return null;
  }
}

async function clusterOf(slot: SlotState, name: string): Promise<Cluster | null> {
  const known = slot.clusters.get(name);
  if (known !== undefined) return known;
  const found = await slot.options.stores.catalog.cluster(name);
  if (found !== null) slot.clusters.set(name, found);
  return found;
}

/** A run outside the schedule: an entry of its own that is due now and holds its place until it is acknowledged. */
async function fireOnce(slot: SlotState, message: FastMessage, record: JobRecord, offset: number): Promise<void> {
  const cluster = await clusterOf(slot, record.cluster);
  const { requestKey, nominalMs } = message.fire!;
  if (cluster !== null) {
    const live = newLive(message.version);
    live.run = { requestKey, target: targetOf(record, cluster, slot.options.epoch) };
    live.hold = slot.holds.hold(offset);
    const entry = slot.entries.make(message.shard, message.number, live);
    slot.entries.nominalMs[entry] = nominalMs;
    slot.entries.effectiveMs[entry] = nominalMs;
    slot.entries.state[entry] = READY;
    slot.ready.push(entry);
  }
  doneOf(slot, message, record.state)?.();
}

/** Applies the changes that waited for triggers on the way; answers whether there were any (then the entry stands). */
export function applyDeferred(slot: SlotState, entry: number): boolean {
  const live = slot.entries.live[entry]!;
  if (live.deferred.length === 0) return false;
  slot.entries.state[entry] = IDLE;
  for (const change of live.deferred.splice(0)) applyChange(slot, change);
  return true;
}
