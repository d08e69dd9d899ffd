import type { TriggerHead } from '../../core/envelope.ts';
import type { BusRecord, GroupOffset, SendFailure, TopicMessages, TopicSpec, TriggerBatch } from '../../ports/bus.ts';

/**
 * What the bus of one process needs of its storage: memory or SQLite. All of it is synchronous, each call is atomic, and a
 * write is durable when it answers. Several buses may stand on the same data (threads of the process), so `watch` tells of
 * the changes of all of them.
 */
export interface Log {
  /** Makes missing topics; fails with `setup-refused` where one has fewer partitions. */
  ensureTopics(topics: readonly TopicSpec[]): void;
  deleteTopics(names: readonly string[]): void;
  /** First offset and the one after the last record, by partition; null: there is no such topic. */
  offsets(topic: string): Offsets[] | null;
  /** Makes the epoch of a lane one higher and answers it. */
  openLane(id: string): number;
  /** Writes all entries in order, as one durable step; each goes in whole or is refused. */
  write(entries: readonly LogEntry[]): WriteResult[];
  /** Begins triggers in the log's own form, for the batch of one entry with a lane; absent: they come as messages. */
  triggers?(): TriggerBatch;
  /** As `BusProducer.prepare`. */
  prepare?(head: TriggerHead, shard: number, number: number): void;
  /** Records from an offset on, in order; none for a topic or partition that does not exist. */
  read(topic: string, partition: number, from: number, maxRecords: number): BusRecord[];
  groups: GroupTable;
  /** Calls back after a change of what is named (as in `Watchers`), by whoever it was; the answer ends it. */
  watch(names: readonly string[], changed: () => void): () => void;
  /** Runs something soon: how long writes that come in meanwhile may wait to share one durable step. */
  soon(run: () => void): void;
  close(): void;
}

export interface Offsets {
  first: number;
  end: number;
}

export interface LogEntry {
  /** Fails with `lane-fenced` where the lane's epoch is another one by now, and on the first failure as a whole. */
  lane?: { id: string; epoch: number };
  batch: readonly TopicMessages[];
  offsets: readonly GroupOffset[];
}

export type WriteResult = { fenced: true } | { fenced: false; failures: SendFailure[] };

/** Offsets of groups, and which member works on which partition. */
export interface GroupTable {
  /** Committed offset of a group; null: it has none. */
  committed(group: string, topic: string, partition: number): number | null;
  enter(group: string, topic: string, member: string): void;
  /** Takes the member out and frees what it still has. */
  leave(group: string, topic: string, member: string): void;
  /** Members in the order in which they came. */
  members(group: string, topic: string): string[];
  /** Takes a partition that nobody has; answers whether it did. */
  claim(group: string, topic: string, partition: number, member: string): boolean;
  release(group: string, topic: string, partition: number, member: string): void;
}
