import { LIMITS } from '../../core/limits.ts';
import type { SlotState } from './slot-state.ts';

/** Depth and bound of each queue of the slot, and how far its wheel is behind. */
export function reportGauges(slot: SlotState, lagMs: number): void {
  const { telemetry } = slot.options;
  const labels = { slot: slot.name };
  telemetry.gauge('wheel_lag_ms', lagMs, labels);
  telemetry.gauge('wheel_entries', slot.entries.size, labels);
  telemetry.gauge('progress_t_ms', slot.durable.t, labels);
  let writeBacks = 0;
  for (const shard of slot.shards.values()) writeBacks += shard.queue.length;
  const members = slot.shards.size * LIMITS.shardJobs;
  const queue = (name: string, depth: number, bound: number): void => {
    telemetry.gauge('queue_depth', depth, { ...labels, queue: name });
    telemetry.gauge('queue_bound', bound, { ...labels, queue: name });
  };
  queue('ready', slot.ready.length, members);
  queue('write_backs', writeBacks, members);
  queue('batches', slot.batches.size, LIMITS.publishBatchesInFlight);
  queue('fast_path_holds', slot.holds.open, LIMITS.deferredChanges);
  queue('answers', slot.answers.length, LIMITS.ownerAnswers);
}
