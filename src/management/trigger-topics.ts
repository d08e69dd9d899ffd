import type { Delivery } from '../core/job.ts';
import type { TopicSpec } from '../ports/bus.ts';

/** Partitions of a trigger topic whose cluster names no number. */
export const CLUSTER_PARTITIONS = 8;

/** How long a trigger topic keeps its triggers, in ms, and up to how many bytes over all its partitions. */
export interface TriggerRetention {
  retentionMs: number;
  retentionBytes: number;
}

export function triggerTopicSpec(
  name: string,
  partitions: number,
  delivery: Delivery,
  retention?: TriggerRetention,
): TopicSpec {
  const spec = { name, partitions, ...(delivery === 'exactly-once' && { exactlyOnce: true }) };
  if (retention === undefined) return spec;
  const { retentionMs, retentionBytes } = retention;
  return { ...spec, retentionMs, retentionBytes: Math.ceil(retentionBytes / partitions) };
}
