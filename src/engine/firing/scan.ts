import { LIMITS } from '../../core/limits.ts';
import { decodeRecord } from '../../core/record.ts';
import type { Shard } from '../../ports/shard-store.ts';
import type { DueMember } from '../../ports/trigger-store.ts';
import { applyChange, firedToMs } from './change.ts';
import { newLive } from './entries.ts';
import { planOrFail } from './fast-path.ts';
import { mayComeLate, recallLeft } from './left.ts';
import { place, settle, standFirst } from './movement.ts';
import { alone, newShardRun, type ShardRun } from './shard-run.ts';
import type { SlotState } from './slot-state.ts';

/** Shards that are scanned at the same time: bounds the members in memory that are not taken up yet. */
const SCANS_AT_ONCE = 8;
/** Members that are decoded in one turn of the event loop: some ms. */
const TAKEN_AT_ONCE = 200;

/** Scans each shard whose horizon has come near, to a horizon that differs a little by shard. Answers how many it scanned. */
export async function scan(slot: SlotState, nowMs: number): Promise<number> {
  const near = [...slot.shards.values()].filter((shard) => shard.horizonMs - nowMs < LIMITS.scanAheadMinMs);
  await inGroups(near, (shard) => scanShard(slot, shard, nowMs));
  return near.length;
}

/** Runs all, a few at a time; the first error is thrown when all have ended. */
export async function inGroups<T>(all: readonly T[], run: (one: T) => Promise<void>): Promise<void> {
  const errors: unknown[] = [];
  for (let i = 0; i < all.length; i += SCANS_AT_ONCE) {
    const group = await Promise.allSettled(all.slice(i, i + SCANS_AT_ONCE).map(run));
    for (const one of group) if (one.status === 'rejected') errors.push(one.reason);
  }
  if (errors.length > 0) throw errors[0];
}

async function scanShard(slot: SlotState, shard: ShardRun, nowMs: number): Promise<void> {
  await alone(shard, async () => {
    shard.scanning = true;
    try {
      await takeUpAll(slot, shard, await readMembers(slot, shard, shard.horizonMs, nowMs));
    } finally {
      shard.scanning = false;
    }
  });
}

/** A shard's own share of the margin, so that scans spread over time: 0 to 4 s with the present limits. */
function spreadMs(shard: number): number {
  return (shard * 997) % (LIMITS.scanAheadMs - LIMITS.scanAheadMinMs - 1_000);
}

/**
 * Moves H and reads the members above `fromMs` up to it; they are to be taken up by `takeUpAll`. An H that neither the last answer nor a scan without an answer
 * explains means that the store went back: then all members are read again, and what the wheel lacks is taken up.
 */
export async function readMembers(
  slot: SlotState,
  shard: ShardRun,
  fromMs: number,
  nowMs: number,
): Promise<DueMember[]> {
  const { triggers } = slot.options.stores;
  const { epoch } = slot.options;
  let from = fromMs;
  for (;;) {
    const horizonMs = Math.max(nowMs + LIMITS.scanAheadMs - spreadMs(shard.id), shard.storedMs);
    const tried = shard.triedMs;
    shard.triedMs = horizonMs;
    const result = await triggers.scan(shard.id, { epoch, expectedHorizonMs: shard.storedMs, fromMs: from, horizonMs });
    if (result.status === 'stale') {
      slot.lose(`epoch ${result.epoch} holds shard ${shard.id}`);
      return [];
    }
    shard.triedMs = null;
    if (result.status === 'ok') {
      shard.storedMs = horizonMs;
      return result.due;
    }
    if (result.horizonMs !== tried) {
      from = 0;
      slot.count('horizons_moved_total');
      slot.event('error', 'the horizon of a shard moved: all its members are read again', {
        shard: shard.id,
        expectedMs: shard.storedMs,
        foundMs: result.horizonMs,
      });
    }
    shard.storedMs = result.horizonMs;
  }
}

/** Takes up what a scan has read; only then may T come near the new horizon. The event loop gets its turns. */
export async function takeUpAll(slot: SlotState, shard: ShardRun, members: readonly DueMember[]): Promise<void> {
  for (const [index, member] of members.entries()) {
    if (index % TAKEN_AT_ONCE === TAKEN_AT_ONCE - 1) await slot.options.clock.sleep(0);
    await takeUp(slot, shard, member);
  }
  shard.horizonMs = shard.storedMs;
}

/** Takes up a member that the slot does not have in this version or a newer one. */
async function takeUp(slot: SlotState, shard: ShardRun, member: DueMember): Promise<void> {
  const { number, score } = member;
  if (slot.phase === 'lost' || slot.phase === 'closed') return;
  const record = decodeRecord(member.record);
  const { version, cutMs } = record;
  const known = slot.entries.find(shard.id, number);
  if (known >= 0 && slot.entries.live[known]!.version >= version) return;
  const plan = await planOrFail(slot, shard.id, number, record);
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
  live.segments = [{ plan, afterMs, untilMs: Number.POSITIVE_INFINITY, fired: [] }];
  const entry = slot.entries.make(shard.id, number, live);
  // The first refresh of a score is spread, so that those of one scan do not come at once.
  slot.entries.scoredMs[entry] = slot.options.clock.wallMs() - ((number * 7_919) % LIMITS.scoreRefreshMs);
  standFirst(slot, entry);
  settle(slot, entry);
  if (slot.running) place(slot, entry);
}

/**
 * Takes up shards that were made while the slot is owned, and opens those that are new. A new shard takes no jobs before
 * that, so nothing in it can be owed from before its first scan.
 */
export async function syncShards(slot: SlotState, nowMs: number, shards?: readonly Shard[]): Promise<number> {
  const { delivery, slot: number, stores, epoch } = slot.options;
  const all = shards ?? (await stores.shards.shards());
  const mine = all.filter((shard) => shard.delivery === delivery && shard.slot === number && shard.state !== 'closed');
  let taken = 0;
  await inGroups(mine, async ({ id, state }) => {
    if (!slot.shards.has(id)) {
      const claimed = await stores.triggers.claim(id, epoch);
      if (claimed.status === 'stale') {
        slot.lose(`epoch ${claimed.epoch} holds shard ${id}`);
        return;
      }
      const run = newShardRun(id, claimed.horizonMs);
      const members = await readMembers(slot, run, 0, nowMs);
      if (!slot.running) return;
      slot.shards.set(id, run);
      await takeUpAll(slot, run, members);
      taken += 1;
    }
    if (state === 'new') await stores.shards.setState(id, 'new', 'open');
  });
  return taken;
}
