import { LIMITS } from '../../core/limits.ts';
import { remove } from './movement.ts';
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
 * The recorder: jobs whose members have score 0 become finished in the job store, then their members go. In this order: a
 * crash in between repeats it. Answers how many members it removed.
 */
export async function recordFinished(slot: SlotState): Promise<number> {
  const { stores, clock } = slot.options;
  let recorded = 0;
  for (const shard of [...slot.shards.values()]) {
    while (shard.finished && slot.running) {
      shard.finished = false;
      try {
        const members = await stores.triggers.finished(shard.id, LIMITS.recorderMembers);
        if (members.length === 0) break;
        await stores.jobs.finish(shard.id, members, clock.wallMs());
        await stores.triggers.removeFinished(shard.id, members);
        recorded += members.length;
        if (members.length === LIMITS.recorderMembers) shard.finished = true;
      } catch (error) {
        shard.finished = true;
        throw error;
      }
    }
  }
  if (recorded > 0) slot.count('jobs_finished_total', {}, recorded);
  return recorded;
}
