import type { TopicSpec } from '../ports/bus.ts';

/** Partitions of a trigger topic whose cluster names no number. */
export const CLUSTER_PARTITIONS = 8;

/** How long a trigger topic keeps its triggers, in ms, and up to how many bytes over all its partitions. */
export interface TriggerRetention {
  retentionMs: number;
  retentionBytes: number;
}

export function triggerTopicSpec(name: string, partitions: number, retention?: TriggerRetention): TopicSpec {
  if (retention === undefined) return { name, partitions };
  const { retentionMs, retentionBytes } = retention;
  return { name, partitions, retentionMs, retentionBytes: Math.ceil(retentionBytes / partitions) };
}
