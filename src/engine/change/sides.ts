import type { Job, Place } from '../../core/job.ts';
import { spreadOffset } from '../../core/schedule/schedule.ts';

/**
 * A job as it stands at each of its places, the one that it has or will have first: at the place that it leaves the record
 * ends at the cut of the move, at the other one it begins there. So no time belongs to both sides, or to none, whatever
 * version is written to them. A job that does not move has one side, which is itself.
 *
 * Example: every minute, spread by 5 s, cut at 12:00:00 -> nominal times up to 11:59:55 here, from 12:00:00 on there.
 */
export function sidesOf(job: Job): Job[] {
  const { move } = job;
  if (move === undefined || job.deleted) return move?.from === undefined ? [job] : [job, { ...job, ...move.from }];
  if (move.from === undefined) return [endedAt(job, job, move.cutMs)];
  return [{ ...job, cutMs: Math.max(job.cutMs, move.cutMs) }, endedAt(job, move.from, move.cutMs)];
}

/** Effective times up to the cut are nominal times up to the cut less the job's offset. */
function endedAt(job: Job, { shard, number }: Place, cutMs: number): Job {
  const { startMs = 0, endMs = Number.POSITIVE_INFINITY, spreadMs } = job.bounds;
  const last = Math.min(endMs, cutMs - spreadOffset(spreadMs, job.key));
  // A job that starts after the cut has nothing on this side; bounds in the wrong order would be refused.
  const bounds = last < startMs ? { ...job.bounds, startMs: 0, endMs: 0 } : { ...job.bounds, endMs: last };
  return { ...job, shard, number, bounds };
}
