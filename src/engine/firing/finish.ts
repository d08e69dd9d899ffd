import { LIMITS } from '../../core/limits.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import type { FinishedJob } from '../../ports/job-store.ts';
import { IDLE } from './entries.ts';
import { remove } from './movement.ts';
import type { EndedJob, ShardRun } from './shard-run.ts';
import type { FailedJob, SlotState } from './slot-state.ts';

/** A job that cannot fire: it goes from the wheel at once, and into the error state with the next `recordFailed`. */
export function failJob(slot: SlotState, job: FailedJob): void {
  slot.failed.push(job);
  slot.count('jobs_failed_total');
  slot.event('error', 'a job cannot fire', { ...job });
}

export function failEntry(slot: SlotState, entry: number, reason: string): void {
  const { entries } = slot;
  const live = entries.live[entry]!;
  if (live.run === null) {
    failJob(slot, { shard: entries.shard[entry]!, number: entries.number[entry]!, version: live.version, reason });
  } else {
    slot.count('triggers_total', { result: 'dropped' });
    slot.event('error', 'a single run was dropped', { number: entries.number[entry], reason });
  }
  remove(slot, entry);
}

/**
 * Puts failed jobs into the error state, and then only takes them out of the trigger store (score 0, which the recorder
 * removes): a crash in between shows the same fault to the next owner.
 */
export async function recordFailed(slot: SlotState): Promise<void> {
  const { stores, clock, epoch } = slot.options;
  while (slot.failed.length > 0 && slot.running) {
    const shard = slot.failed[0]!.shard;
    const jobs = slot.failed.filter((job) => job.shard === shard).slice(0, LIMITS.writeBackMembers);
    await stores.jobs.fail(shard, jobs, clock.wallMs());
    const scores = jobs.map(({ number, version }) => ({ number, version, score: 0 }));
    const result = await stores.triggers.writeBack(shard, epoch, scores);
    if (result.status === 'stale') {
      slot.lose(`epoch ${result.epoch} holds shard ${shard}`);
      return;
    }
    slot.failed = slot.failed.filter((job) => !jobs.includes(job));
    const run = slot.shards.get(shard);
    if (run !== undefined) run.finished = true;
  }
}

/**
 * The recorder: finished jobs of all shards are recorded in the job store with one call, then their members go, and with them
 * their entries. In this order: a crash in between repeats it, since T has passed their scores. The owner knows itself what it
 * has finished; the store is asked for the rest, after a takeover and after a failure. Answers how many it recorded.
 */
export async function recordFinished(slot: SlotState): Promise<number> {
  const { stores, clock } = slot.options;
  let recorded = 0;
  for (;;) {
    await askFinished(slot);
    const ended = takeEnded(slot);
    if (ended.length === 0 || !slot.running) break;
    const all = ended.flatMap(({ shard: { id }, members }) => members.map((member) => recordOf(id, member)));
    try {
      await stores.jobs.finish(all, clock.wallMs());
    } catch (error) {
      for (const { shard, members } of ended) shard.ended = [...members, ...shard.ended];
      throw error;
    }
    await Promise.all(ended.map((one) => removeRecorded(slot, one)));
    recorded += all.length;
    slot.count('jobs_finished_total', {}, all.length);
    // The few that ended meanwhile wait for others: a call for each few costs the store far more.
    const more =
      all.length === LIMITS.recordedJobs || [...slot.shards.values()].some(({ finished, lost }) => finished && !lost);
    if (!more) break;
  }
  return recorded;
}

function recordOf(shard: number, { number, version, oneShotOf }: EndedJob): FinishedJob {
  return oneShotOf === undefined ? { shard, number, version } : { shard, number, version, oneShotOf };
}

async function removeRecorded(slot: SlotState, { shard, members }: Ended): Promise<void> {
  const { entries, options } = slot;
  try {
    await options.stores.triggers.removeFinished(shard.id, members);
  } catch (error) {
    shard.ended = [...members, ...shard.ended];
    throw error;
  }
  if (!slot.running) return;
  for (const { entry, number, version } of members) {
    if (entry === undefined || entries.find(shard.id, number) !== entry) continue;
    // A version that came meanwhile keeps the entry.
    const isOver = entries.live[entry]!.version === version && entries.nominalMs[entry] === NO_OCCURRENCE;
    if (isOver && entries.state[entry] === IDLE) remove(slot, entry);
  }
}

/** Asks the store for finished members of those shards of which nobody here knows all. */
async function askFinished(slot: SlotState): Promise<void> {
  const asked = [...slot.shards.values()].filter((shard) => shard.finished && !shard.lost);
  await Promise.all(
    asked.map(async (shard) => {
      shard.finished = false;
      try {
        const found = await slot.options.stores.triggers.finished(shard.id, LIMITS.recorderMembers);
        // What is known here says more; some of it may have been written after the answer.
        const known = new Map(shard.ended.map(({ number, version }) => [number, version]));
        for (const member of found) if (known.get(member.number) !== member.version) shard.ended.push(member);
        shard.finished = found.length === LIMITS.recorderMembers;
      } catch (error) {
        shard.finished = true;
        throw error;
      }
    }),
  );
}

interface Ended {
  shard: ShardRun;
  members: EndedJob[];
}

/** What one call takes of all shards together. */
function takeEnded(slot: SlotState): Ended[] {
  const ended: Ended[] = [];
  let room: number = LIMITS.recordedJobs;
  for (const shard of slot.shards.values()) {
    if (room === 0) break;
    if (shard.ended.length === 0) continue;
    const members = shard.ended.splice(0, room);
    room -= members.length;
    ended.push({ shard, members });
  }
  return ended;
}
