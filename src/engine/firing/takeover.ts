import { randomUUID } from 'node:crypto';
import {
  ADOPT_KEY,
  type Adopt,
  type Cursor,
  decodeMessage,
  encodeMessage,
  PROGRESS_KEY,
  type Progress,
} from '../../core/messages.ts';
import { laneId, TOPICS } from '../../core/topics.ts';
import { Wheel } from '../../core/wheel.ts';
import type { BusReader, BusRecord } from '../../ports/bus.ts';
import type { DueMember } from '../../ports/trigger-store.ts';
import { knowLineages } from '../rebuild/lineage.ts';
import { inheritedT } from '../rebuild/lost.ts';
import { IDLE } from './entries.ts';
import { readFast } from './fast-path.ts';
import { place, settle } from './movement.ts';
import { claimShard, fewAtOnce, readMembers, takeUpAll } from './scan.ts';
import type { ShardRun } from './shard-run.ts';
import type { SlotState } from './slot-state.ts';

/** Records of the progress topic that are read before its end: one of them is a progress record, or the log is short. */
const PROGRESS_TAIL = 1_000;
/** A reader that brings nothing for this long is asked again, in ms. */
const READ_WAIT_MS = 1_000;
/** Lanes of an exactly-once slot that take turns: one rests while the other is used. */
const LANES = 2;
/** How far back a wheel begins at most, in ms; what is older is due at once, in no order between jobs. */
const WHEEL_BACK_MS = 86_400_000;

/**
 * Takes the slot over from whoever had it: fences the lane, writes the adopt record and reads progress and cursors until it
 * comes back (so nothing of the former owner can be missing), claims and scans every shard from above 0, and reads the fast
 * path from O until it has caught up. Only then does the wheel begin, and T with it (I6). The scans come before the fast path
 * has caught up, so that what a message says about a member overrides what the scan could conclude.
 */
export async function adopt(slot: SlotState): Promise<void> {
  const { epoch, incarnation } = slot.options;
  const { partition } = slot;
  slot.phase = 'adopting';
  await openLanes(slot);
  // An owner that lost its lane takes over again under the same epoch: its former adopt record is no barrier for this one.
  const attempt = randomUUID();
  const value = encodeMessage({ v: 1, epoch, incarnation, attempt } satisfies Adopt);
  const record = { partition, key: ADOPT_KEY, value };
  await slot.lane!.commit([
    { topic: TOPICS.progress, messages: [record] },
    { topic: TOPICS.cursors, messages: [record] },
  ]);
  if (!(await readProgress(slot, attempt))) return;
  if (!(await readCursors(slot, attempt))) return;
  await openFastPath(slot);
  let scanned: Scanned[] | null;
  do {
    scanned = await firstScans(slot);
    if (scanned === null) return;
    // With a new connection the store may have gone back behind the first answers.
  } while (slot.connections !== slot.options.stores.triggers.connections());
  do {
    await readFast(slot, 0);
  } while (slot.phase === 'adopting' && !(await slot.reader!.caughtUp()));
  for (const { shard, members } of scanned) if (!shard.lost) await takeUpAll(slot, shard, members);
  if (slot.phase !== 'adopting') return;
  await begin(slot);
}

/** All lanes that an owner may have used, so that none of it can still commit. */
async function openLanes(slot: SlotState): Promise<void> {
  const { stores, installation, delivery, slot: number } = slot.options;
  const count = delivery === 'exactly-once' ? Math.min(LANES, installation.lanesPerSlot ?? 1) : 1;
  for (let lane = 0; lane < count; lane += 1) {
    slot.lanes.push(await stores.bus.lane(laneId(installation.id, delivery, number, lane)));
  }
}

/** Reads records up to the own adopt record; answers those before it, or null when another epoch has the slot. */
async function readToAdopt(slot: SlotState, reader: BusReader, attempt: string): Promise<BusRecord[] | null> {
  const { epoch } = slot.options;
  const before: BusRecord[] = [];
  for (;;) {
    for (const record of await reader.read(READ_WAIT_MS)) {
      const owner = record.value === null ? null : decodeMessage<Adopt>(record.value);
      const marked = record.key === ADOPT_KEY || record.key === PROGRESS_KEY;
      if (marked && owner !== null && owner.epoch > epoch) {
        slot.lose(`epoch ${owner.epoch} has the slot`);
        return null;
      }
      if (record.key === ADOPT_KEY && owner?.attempt === attempt) return before;
      before.push(record);
    }
  }
}

async function readTopic(
  slot: SlotState,
  topic: string,
  from: number | 'first',
  attempt: string,
): Promise<BusRecord[] | null> {
  const reader = await slot.options.stores.bus.reader(topic, slot.partition, from);
  try {
    return await readToAdopt(slot, reader, attempt);
  } finally {
    await reader.close();
  }
}

/**
 * The last progress record before the own adopt record. None: nothing was ever fired here, so T = 0: every score counts as
 * it stands.
 */
async function readProgress(slot: SlotState, attempt: string): Promise<boolean> {
  const { first, end } = (await slot.options.stores.bus.offsets(TOPICS.progress))[slot.partition]!;
  const tail = Math.max(first, end - PROGRESS_TAIL);
  for (const from of tail > first ? [tail, 'first' as const] : ['first' as const]) {
    const before = await readTopic(slot, TOPICS.progress, from, attempt);
    if (before === null) return false;
    const record = before.findLast((one) => one.key === PROGRESS_KEY && one.value !== null);
    if (record === undefined) continue;
    const progress = decodeMessage<Progress>(record.value!);
    if (progress === null) throw new Error('a progress record has an unknown form');
    slot.durable = { t: progress.t, o: progress.o, n: 0 };
    slot.formerEpoch = progress.epoch;
    slot.lineages = progress.lineages ?? [];
    slot.lagging = new Map(Object.entries(progress.lagging ?? {}).map(([shard, t]) => [Number(shard), t]));
    break;
  }
  slot.mark = { ...slot.durable };
  return true;
}

async function readCursors(slot: SlotState, attempt: string): Promise<boolean> {
  const before = await readTopic(slot, TOPICS.cursors, 'first', attempt);
  if (before === null) return false;
  for (const { key, value } of before) {
    if (key === null || key === ADOPT_KEY) continue;
    const cursor = value === null ? null : decodeMessage<Cursor>(value);
    if (cursor === null) slot.inherited.delete(key);
    else slot.inherited.set(key, cursor);
  }
  return true;
}

async function openFastPath(slot: SlotState): Promise<void> {
  const { bus } = slot.options.stores;
  const { first } = (await bus.offsets(TOPICS.fast))[slot.partition]!;
  if (slot.durable.o < first && slot.durable.o > 0) {
    slot.event('error', 'messages of the fast path are no longer kept', { fromOffset: slot.durable.o, first });
  }
  const from = Math.max(first, slot.durable.o);
  slot.holds.position = from;
  slot.reader = await bus.reader(TOPICS.fast, slot.partition, from);
}

interface Scanned {
  shard: ShardRun;
  members: DueMember[];
}

async function firstScans(slot: SlotState): Promise<Scanned[] | null> {
  const { delivery, slot: number, stores, clock } = slot.options;
  slot.connections = stores.triggers.connections();
  const all = await stores.shards.shards();
  const mine = all.filter((shard) => shard.delivery === delivery && shard.slot === number && shard.state !== 'closed');
  const scanned: Scanned[] = [];
  await fewAtOnce(mine, async ({ id, state }) => {
    const shard = await claimShard(slot, { id, state });
    if (shard === null) return;
    const members = shard.lost ? null : await readMembers(slot, shard, 0, clock.wallMs());
    if (shard.lost) shard.horizonMs = inheritedT(slot, id);
    scanned.push({ shard, members: members ?? [] });
  });
  if (slot.phase !== 'adopting') return null;
  for (const { shard } of scanned) slot.shards.set(shard.id, shard);
  return scanned;
}

/** Everything is known: entries with a cursor of the former owner go on with it, all are put where they wait. */
async function begin(slot: SlotState): Promise<void> {
  const { entries } = slot;
  const nowMs = slot.options.clock.wallMs();
  slot.wheel = new Wheel(Math.max(0, Math.min(nowMs, Math.max(slot.durable.t, nowMs - WHEEL_BACK_MS))));
  for (const [key, cursor] of slot.inherited) {
    const entry = entries.find(cursor.shard, cursor.number);
    // What a job of a lost shard owes is known when the shard is rebuilt.
    if (entry < 0 && slot.shards.get(cursor.shard)?.lost === true) continue;
    // Until its job is resumed, or begins anew.
    if (entry < 0 && cursor.reason === 'paused') continue;
    if (entry < 0) slot.cursors.set(key, null);
    else entries.live[entry]!.cursor = cursor;
    slot.inherited.delete(key);
  }
  slot.phase = 'running';
  knowLineages(slot);
  slot.committedMs = slot.options.clock.monotonicMs();
  for (let entry = 0; entry < entries.end; entry += 1) {
    const live = entries.live[entry];
    if (live == null || live.run !== null || entries.state[entry] !== IDLE) continue;
    settle(slot, entry);
    place(slot, entry);
  }
  slot.count('takeovers_total');
}
