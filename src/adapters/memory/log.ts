import { carillonError } from '../../core/errors.ts';
import type { BusMessage, BusRecord, GroupOffset, TopicMessages, TopicSpec } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import { admit } from '../local/admission.ts';
import type { GroupTable, Log, LogEntry, Offsets, WriteResult } from '../local/log.ts';
import { recordsOf, Watchers } from '../local/watchers.ts';

/** A compacted partition is compacted when it has this many records, and again each time they have doubled. */
const COMPACT_FROM_RECORDS = 1_000;

interface Partition {
  records: BusRecord[];
  end: number;
  compactAt: number;
}

interface Topic {
  compacted: boolean;
  partitions: Partition[];
}

/** Index of the first record at or after an offset; offsets rise and have holes after a compaction. */
function indexOf(records: readonly BusRecord[], offset: number): number {
  let low = 0;
  let high = records.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (records[middle]!.offset < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

function compact(partition: Partition): void {
  const last = new Map<string | null, number>();
  for (const record of partition.records) last.set(record.key, record.offset);
  partition.records = partition.records.filter((record) => last.get(record.key) === record.offset);
  partition.compactAt = Math.max(COMPACT_FROM_RECORDS, 2 * partition.records.length);
}

/** Groups in memory: offsets, members and who has which partition. */
class MemoryGroups implements GroupTable {
  readonly offsets = new Map<string, number>();
  readonly #members = new Map<string, string[]>();
  readonly #owners = new Map<string, string>();
  readonly #changed: (topic: string) => void;

  constructor(changed: (topic: string) => void) {
    this.#changed = changed;
  }

  static at(group: string, topic: string, partition?: number): string {
    return JSON.stringify([topic, group, partition]);
  }

  committed(group: string, topic: string, partition: number): number | null {
    return this.offsets.get(MemoryGroups.at(group, topic, partition)) ?? null;
  }

  members(group: string, topic: string): string[] {
    return this.#members.get(MemoryGroups.at(group, topic)) ?? [];
  }

  enter(group: string, topic: string, member: string): void {
    this.#members.set(MemoryGroups.at(group, topic), [...this.members(group, topic), member]);
    this.#changed(topic);
  }

  leave(group: string, topic: string, member: string): void {
    const rest = this.members(group, topic).filter((one) => one !== member);
    this.#members.set(MemoryGroups.at(group, topic), rest);
    this.#changed(topic);
  }

  claim(group: string, topic: string, partition: number, member: string): boolean {
    const at = MemoryGroups.at(group, topic, partition);
    if (this.#owners.has(at)) return false;
    this.#owners.set(at, member);
    return true;
  }

  release(group: string, topic: string, partition: number, member: string): void {
    const at = MemoryGroups.at(group, topic, partition);
    if (this.#owners.get(at) === member) this.#owners.delete(at);
    this.#changed(topic);
  }

  forget(topic: string): void {
    for (const key of this.offsets.keys()) if (JSON.parse(key)[0] === topic) this.offsets.delete(key);
  }
}

/**
 * The log of a bus in memory. It keeps every record but the superseded ones of compacted topics: retention is for stores
 * that live longer than a process.
 */
export class MemoryLog implements Log {
  readonly #clock: Clock;
  readonly #topics = new Map<string, Topic>();
  readonly #lanes = new Map<string, number>();
  readonly #watchers = new Watchers();
  readonly groups = new MemoryGroups((topic) => this.#watchers.tell([topic]));

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  ensureTopics(topics: readonly TopicSpec[]): void {
    for (const { name, partitions } of topics) {
      const there = this.#topics.get(name)?.partitions.length ?? partitions;
      if (there < partitions) {
        throw carillonError('setup-refused', `topic ${name} has ${there} partitions, ${partitions} are needed`);
      }
    }
    for (const { name, partitions, compacted = false } of topics) {
      if (this.#topics.has(name)) continue;
      const one = (): Partition => ({ records: [], end: 0, compactAt: COMPACT_FROM_RECORDS });
      this.#topics.set(name, { compacted, partitions: Array.from({ length: partitions }, one) });
    }
  }

  deleteTopics(names: readonly string[]): void {
    for (const name of names) {
      if (this.#topics.delete(name)) this.groups.forget(name);
    }
    this.#watchers.tell(names);
  }

  offsets(topic: string): Offsets[] | null {
    const found = this.#topics.get(topic);
    if (found === undefined) return null;
    return found.partitions.map(({ end }) => ({ first: 0, end }));
  }

  openLane(id: string): number {
    const epoch = (this.#lanes.get(id) ?? 0) + 1;
    this.#lanes.set(id, epoch);
    return epoch;
  }

  write(entries: readonly LogEntry[]): WriteResult[] {
    const touched = new Set<string>();
    const results = entries.map(({ lane, batch, offsets }): WriteResult => {
      if (lane !== undefined && this.#lanes.get(lane.id) !== lane.epoch) return { fenced: true };
      const { good, failures } = admit(batch, (topic) => this.#topics.get(topic)?.partitions.length ?? 0);
      if (lane !== undefined && failures.length > 0) return { fenced: false, failures };
      this.#append(good, touched);
      this.#setOffsets(offsets);
      return { fenced: false, failures };
    });
    this.#watchers.tell(touched);
    return results;
  }

  #append(batch: readonly TopicMessages[], touched: Set<string>): void {
    const timestampMs = this.#clock.wallMs();
    for (const { topic, messages } of batch) {
      if (messages.length === 0) continue;
      const { partitions, compacted } = this.#topics.get(topic)!;
      for (const message of messages) {
        touched.add(recordsOf(topic, message.partition));
        this.#appendOne(partitions[message.partition]!, message, timestampMs, compacted);
      }
    }
  }

  #appendOne(partition: Partition, message: BusMessage, timestampMs: number, compacted: boolean): void {
    const { key, value, headers } = message;
    partition.records.push({
      partition: message.partition,
      key,
      // A copy: the bytes belong to the caller, who may write into them again.
      value: value === null ? null : value.slice(),
      headers: { ...headers },
      offset: partition.end,
      timestampMs,
    });
    partition.end += 1;
    if (compacted && partition.records.length >= partition.compactAt) compact(partition);
  }

  #setOffsets(offsets: readonly GroupOffset[]): void {
    for (const { group, topic, partition, next } of offsets) {
      this.groups.offsets.set(MemoryGroups.at(group, topic, partition), next);
    }
  }

  read(topic: string, partition: number, from: number, maxRecords: number): BusRecord[] {
    const records = this.#topics.get(topic)?.partitions[partition]?.records ?? [];
    const start = indexOf(records, from);
    return records.slice(start, start + maxRecords);
  }

  watch(names: readonly string[], changed: () => void): () => void {
    return this.#watchers.watch(names, changed);
  }

  soon(run: () => void): void {
    queueMicrotask(run);
  }

  close(): void {}
}
