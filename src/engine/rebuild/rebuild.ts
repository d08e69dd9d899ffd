import type { Job } from '../../core/job.ts';
import { closeInherited, oweBehind } from '../firing/cursors.ts';
import { WAITING } from '../firing/entries.ts';
import { place, settle } from '../firing/movement.ts';
import { readMembers, takeUpAll } from '../firing/scan.ts';
import { alone, type ShardRun } from '../firing/shard-run.ts';
import type { SlotState } from '../firing/slot-state.ts';
import { knowLineages } from './lineage.ts';
import { endUntold, MOVING_MOST, readCalendars, restoreJobs, sidesIn } from './restore.ts';

/** Jobs of one question to the job store. */
const PAGE_JOBS = 500;
/** Rebuilds that one epoch can number. */
const BUILDS = 2 ** 20;

/**
 * Rebuilds one shard that the trigger store has lost, from the job store, T and the wheel, while everything else goes on.
 * Answers whether there is one more.
 *
 * Nothing is lost: the shard is not whole until its last step, so every change that comes meanwhile reaches this owner by the
 * fast path; each job that was there before is in one of the pages, since its document is written before anything else; and
 * the last step reads all members up to the new H, in which every later change is compared with that H again.
 * Nothing is fired twice: a score is what the wheel has, or lies after everything that T, the horizon of the shard or a cursor
 * say was fired; beyond that horizon nothing was published meanwhile.
 * A crash at any point leaves a shard that is not whole, and a T of its own in progress, from which the next owner rebuilds it.
 */
export async function rebuild(slot: SlotState, wanted: (shard: ShardRun) => boolean = () => true): Promise<boolean> {
  const lost = [...slot.shards.values()].filter((shard) => shard.lost && wanted(shard));
  const [shard] = lost;
  if (shard === undefined || !slot.running) return false;
  await alone(shard, () => rebuildShard(slot, shard));
  return lost.length > 1;
}

async function rebuildShard(slot: SlotState, shard: ShardRun): Promise<void> {
  const { stores, epoch, clock } = slot.options;
  const begunMs = clock.monotonicMs();
  const connections = stores.triggers.connections();
  const claimed = await stores.triggers.claim(shard.id, epoch);
  if (claimed.status === 'stale') {
    slot.lose(`epoch ${claimed.epoch} holds shard ${shard.id}`);
    return;
  }
  shard.lineage = claimed.lineage;
  slot.builds += 1;
  const build = epoch * BUILDS + (slot.builds % BUILDS);
  const reset = await stores.triggers.reset(shard.id, epoch, build);
  if (reset.status === 'stale') {
    slot.lose(`epoch ${reset.epoch} holds shard ${shard.id}`);
    return;
  }
  const jobs = await restoreAll(slot, shard);
  if (jobs === null) return;
  shard.storedMs = 0;
  shard.triedMs = null;
  shard.scanning = true;
  try {
    const members = await readMembers(slot, shard, 0, clock.wallMs(), build);
    // Lost again in between: it begins anew.
    if (members === null) return;
    await takeUpAll(slot, shard, members);
    if (slot.running) standWhole(slot, shard, connections === stores.triggers.connections());
  } finally {
    shard.scanning = false;
  }
  slot.count('shards_rebuilt_total');
  slot.event('info', 'a shard was rebuilt', { shard: shard.id, jobs, ms: Math.round(clock.monotonicMs() - begunMs) });
}

/** All jobs of the shard into the trigger store; what only the wheel has ends. Answers how many jobs there are. */
async function restoreAll(slot: SlotState, shard: ShardRun): Promise<number | null> {
  const { jobs } = slot.options.stores;
  const { entries } = slot;
  const untold = new Map<number, number>();
  for (const entry of entries.ofShard(shard.id)) untold.set(entries.number[entry]!, entries.live[entry]!.version);
  const calendars = await readCalendars(slot);
  let count = 0;
  const restore = async (found: readonly Job[]): Promise<boolean> => {
    const here = found.flatMap((job) => sidesIn(shard.id, job));
    count += here.length;
    for (const { number } of here) untold.delete(number);
    return (await restoreJobs(slot, shard, here, calendars)) !== null;
  };
  for (let after = -1; ; ) {
    const page = await jobs.byShard(shard.id, after, PAGE_JOBS);
    if (!(await restore(page))) return null;
    if (page.length < PAGE_JOBS) break;
    after = page.at(-1)!.number;
  }
  // The sides of jobs that have gone to another shard and still fire here.
  const leaving = await jobs.using({ moving: true }, null, MOVING_MOST);
  if (!(await restore(leaving.filter((job) => job.shard !== shard.id)))) return null;
  for (const [number, version] of untold) endUntold(slot, shard.id, number, version);
  return count;
}

/**
 * The shard keeps up again: what waited outside the wheel goes into it, and what T has passed meanwhile goes behind cursors.
 * `certain`: no connection was made anew meanwhile, with which the store may have gone back by a part of the rebuild.
 */
function standWhole(slot: SlotState, shard: ShardRun, certain: boolean): void {
  const { entries } = slot;
  const all = entries.ofShard(shard.id);
  closeInherited(slot, shard.id);
  for (const entry of all) if (entries.live[entry]!.cursor === null) oweBehind(slot, entry);
  shard.lost = false;
  shard.doubted = false;
  shard.suspect = !certain;
  shard.doubtful.clear();
  shard.finished = true;
  slot.moved = true;
  for (const entry of all) {
    if (entries.state[entry] !== WAITING || slot.wheel.waits(entry)) continue;
    settle(slot, entry);
    place(slot, entry);
  }
  knowLineages(slot);
  slot.options.wake?.();
}
