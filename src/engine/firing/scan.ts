import type { JobRecord } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import { decodeRecord } from '../../core/record.ts';
import type { Shard } from '../../ports/shard-store.ts';
import type { DueMember } from '../../ports/trigger-store.ts';
import { isOtherLineage, knowLineages } from '../rebuild/lineage.ts';
import { inheritedT, loseShard } from '../rebuild/lost.ts';
import { applyChange, firedToMs } from './change.ts';
import { inheritedFired } from './cursors.ts';
import { newLive } from './entries.ts';
import { knowCluster, planNow } from './fast-path.ts';
import { mayComeLate, recallLeft } from './left.ts';
import { place, settle, standFirst } from './movement.ts';
import { alone, ShardRun } from './shard-run.ts';
import type { SlotState } from './slot-state.ts';

/** Shards that are scanned at the same time: bounds the members in memory that are not taken up yet. */
const SCANS_AT_ONCE = 8;
/** Members that are decoded in one turn of the event loop: some ms. */
const TAKEN_AT_ONCE = 200;

/** A shard that may have gone back is compared first, unless so little of its horizon is left, in ms. */
const SUSPECT_LEFT_MS = 5_000;

/**
 * Scans each shard whose horizon has come near, to a horizon that differs a little by shard. After a new connection to the
 * store nothing is believed before it is compared with the job store: an old copy has versions that are in force no more.
 * Answers how many shards it scanned.
 */
export async function scan(slot: SlotState, nowMs: number): Promise<number> {
  const connections = slot.options.stores.triggers.connections();
  if (connections !== slot.connections) {
    slot.connections = connections;
    for (const shard of slot.shards.values()) shard.suspect = true;
  }
  const near = [...slot.shards.values()].filter(({ lost, suspect, doubted, horizonMs }) => {
    if (lost) return false;
    return suspect ? horizonMs - nowMs < SUSPECT_LEFT_MS : doubted || horizonMs - nowMs < LIMITS.scanAheadMinMs;
  });
  await fewAtOnce(near, (shard) => scanShard(slot, shard, nowMs));
  return near.length;
}

/** Runs all, a few at a time; the first error is thrown when all have ended. */
export async function fewAtOnce<T>(all: readonly T[], run: (one: T) => Promise<void>): Promise<void> {
  const errors: unknown[] = [];
  const left = all.values();
  const work = async (): Promise<void> => {
    for (const one of left) {
      try {
        await run(one);
      } catch (error) {
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(SCANS_AT_ONCE, all.length) }, work));
  if (errors.length > 0) throw errors[0];
}

async function scanShard(slot: SlotState, shard: ShardRun, nowMs: number): Promise<void> {
  await alone(shard, async () => {
    if (shard.lost) return;
    shard.scanning = true;
    const { doubted } = shard;
    shard.doubted = false;
    try {
      const members = await readMembers(slot, shard, doubted ? 0 : shard.horizonMs, nowMs);
      if (members !== null) await takeUpAll(slot, shard, members);
    } catch (error) {
      shard.doubted ||= doubted;
      throw error;
    } finally {
      shard.scanning = false;
    }
  });
}

/**
 * How far ahead a scan reaches, in ms. The first one of a shard reaches 0 to 4 s less far, with the present limits, so that the
 * scans of many shards stay apart in time; from then on each comes again after 5 s.
 */
function aheadMs(shard: ShardRun, nowMs: number): number {
  if (shard.storedMs > nowMs) return LIMITS.scanAheadMs;
  return LIMITS.scanAheadMs - ((shard.id * 997) % (LIMITS.scanAheadMs - LIMITS.scanAheadMinMs - 1_000));
}

/**
 * Moves H and reads the members above `fromMs` up to it; they are to be taken up by `takeUpAll`. Null: the slot is lost, or the
 * shard: it is not whole, or its H is neither where the last answer left it nor where a scan without an answer would have, so
 * the store went back. `build` ends a rebuild, as the store's `scan` tells.
 */
export async function readMembers(
  slot: SlotState,
  shard: ShardRun,
  fromMs: number,
  nowMs: number,
  build?: number,
): Promise<DueMember[] | null> {
  const { triggers } = slot.options.stores;
  const { epoch } = slot.options;
  for (;;) {
    const horizonMs = Math.max(nowMs + aheadMs(shard, nowMs), shard.storedMs);
    const tried = shard.triedMs;
    shard.triedMs = horizonMs;
    const request = { epoch, expectedHorizonMs: shard.storedMs, fromMs, horizonMs };
    const result = await triggers.scan(shard.id, build === undefined ? request : { ...request, build });
    if (result.status === 'stale') {
      slot.lose(`epoch ${result.epoch} holds shard ${shard.id}`);
      return null;
    }
    shard.triedMs = null;
    if (result.status === 'ok') {
      shard.storedMs = horizonMs;
      return result.due;
    }
    if (result.status === 'not-whole') {
      loseShard(slot, shard, 'not-whole');
      return null;
    }
    if (result.horizonMs !== tried) {
      slot.count('horizons_moved_total');
      loseShard(slot, shard, 'horizon');
      return null;
    }
    shard.storedMs = result.horizonMs;
  }
}

/** Takes up what a scan has read; only then may T come near the new horizon. The event loop gets its turns. */
export async function takeUpAll(slot: SlotState, shard: ShardRun, members: readonly DueMember[]): Promise<void> {
  for (const [index, member] of members.entries()) {
    if (index % TAKEN_AT_ONCE === TAKEN_AT_ONCE - 1) await slot.options.clock.sleep(0);
    const record = decodeRecord(member.record);
    if (!slot.clusters.has(record.cluster)) await knowCluster(slot, record);
    takeUp(slot, shard, member, record);
  }
  shard.horizonMs = shard.storedMs;
}

/** Takes up a member that the slot does not have in this version or a newer one. */
function takeUp(slot: SlotState, shard: ShardRun, member: DueMember, record: JobRecord): void {
  const { number, score } = member;
  if (slot.phase === 'lost' || slot.phase === 'closed') return;
  const { version, cutMs } = record;
  const known = slot.entries.find(shard.id, number);
  if (known >= 0 && slot.entries.live[known]!.version >= version) return;
  const plan = planNow(slot, shard.id, number, record);
  if (plan === null) return;
  if (known >= 0) {
    applyChange(slot, {
      shard: shard.id,
      number,
      version,
      cutMs,
      plan,
      former: null,
      offset: -1,
      hold: null,
      done: null,
    });
    return;
  }
  slot.options.producer.prepare?.(plan.head, shard.id, number);
  const firedTo = firedToMs(slot, shard.id, number);
  const { offsetMs } = plan.schedule;
  const live = newLive(version);
  live.cutMs = cutMs;
  live.current = plan;
  const left = recallLeft(slot, shard.id, number);
  if (left?.version === version) live.takenFromMs = left.takenFromMs;
  else if (mayComeLate(slot, cutMs)) live.takenFromMs = firedTo;
  // At or before the time up to which all was fired: that time was fired. Above: as the score says.
  const afterMs = score <= firedTo ? firedTo - offsetMs : score - offsetMs - 1;
  const fired = inheritedFired(slot, shard.id, number);
  live.segments = [{ plan, afterMs, untilMs: Number.POSITIVE_INFINITY, fired }];
  const entry = slot.entries.make(shard.id, number, live);
  // The first refresh of a score is spread, so that those of one scan do not come at once.
  slot.entries.scoredMs[entry] = slot.options.clock.wallMs() - ((number * 7_919) % LIMITS.scoreRefreshMs);
  standFirst(slot, entry);
  settle(slot, entry);
  if (slot.running) place(slot, entry);
}

/**
 * Takes a shard for this owner. It is lost where the store does not have all of it, where the last owner had not rebuilt it, and
 * where it is older than what that one has told: another owner claimed it last, its H is before T, or it is in a copy of the
 * store that the last owner had not compared. Null: the slot is lost.
 */
export async function claimShard(
  slot: SlotState,
  { id, state }: Pick<Shard, 'id' | 'state'>,
): Promise<ShardRun | null> {
  const { stores, epoch } = slot.options;
  const claimed = await stores.triggers.claim(id, epoch);
  if (claimed.status === 'stale') {
    slot.lose(`epoch ${claimed.epoch} holds shard ${id}`);
    return null;
  }
  const { horizonMs, formerEpoch, whole, lineage } = claimed;
  const t = slot.running ? slot.mark.t : inheritedT(slot, id);
  const shard = new ShardRun(id, horizonMs);
  shard.lineage = lineage;
  const other = isOtherLineage(slot, lineage);
  const lagged = !slot.running && slot.lagging.has(id);
  if (whole && !lagged && !other && formerEpoch >= slot.formerEpoch && horizonMs >= t) return shard;
  shard.horizonMs = t;
  // A new one has nothing that could be lost; to make it whole is the same work.
  loseShard(slot, shard, state === 'new' ? 'new' : !whole ? 'not-whole' : other ? 'lineage' : 'older');
  return shard;
}

export interface Synced {
  taken: number;
  /** New shards that are not whole yet. */
  unopened: ReadonlySet<number>;
}

/**
 * Takes up shards that were made while the slot is owned, and opens those that are new and whole. A new shard takes no jobs
 * before that, so nothing in it can be owed from before its first scan.
 */
export async function syncShards(slot: SlotState, nowMs: number, shards?: readonly Shard[]): Promise<Synced> {
  const { delivery, slot: number, stores } = slot.options;
  const all = shards ?? (await stores.shards.shards());
  const mine = all.filter((shard) => shard.delivery === delivery && shard.slot === number && shard.state !== 'closed');
  let taken = 0;
  const unopened = new Set<number>();
  await fewAtOnce(mine, async ({ id, state }) => {
    if (!slot.shards.has(id)) {
      const run = await claimShard(slot, { id, state });
      if (run === null) return;
      const members = run.lost ? [] : await readMembers(slot, run, 0, nowMs);
      if (!slot.running) return;
      slot.shards.set(id, run);
      if (members !== null && !run.lost) await takeUpAll(slot, run, members);
      taken += 1;
    }
    if (state !== 'new') return;
    if (slot.shards.get(id)?.lost === false) await stores.shards.setState(id, 'new', 'open');
    else unopened.add(id);
  });
  if (taken > 0) knowLineages(slot);
  return { taken, unopened };
}
