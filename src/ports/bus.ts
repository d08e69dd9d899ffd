import type { TriggerHead } from '../core/envelope.ts';
import { CarillonError } from '../core/errors.ts';

/**
 * The bus: topics of partitions, each an ordered log. Kafka in cluster mode, a table in embedded mode.
 *
 * Contract
 * - Records of one partition are read in the order of their offsets; offsets rise and may have holes.
 * - `producer.send` answers when every record is durable. When it fails, what became durable is unknown, except where the
 *   error says otherwise; inside one producer a repeat by the adapter itself never doubles a record (idempotent).
 * - A *lane* is a transactional producer with a fixed id. Opening it fences every earlier holder of the id: their next
 *   commit fails with `lane-fenced`, their open transaction is aborted. A lane's commit is atomic: all records and all
 *   offsets, or nothing. A commit whose outcome is unknown is resolved by the adapter (repeat of the same end, never a
 *   second transaction) before it answers or throws.
 * - Readers and groups see committed records only. A reader never skips: it reads from exactly the offset it was given.
 * - A commit is answered when it is decided. Readers see it as soon as the bus shows it, which may be some ms later, and not
 *   in all partitions at the same instant: who must not miss it waits for its record, or for `caughtUp('written')`.
 * - `key` is text (UTF-8); `value` null is a tombstone for compacted topics.
 * - A partition that a topic does not have is answered like a topic that does not exist: `topic-unknown`.
 */
export interface Bus {
  /**
   * Makes the topics that are missing. Those that exist are left alone, with as many partitions as asked for or more; one
   * that has fewer is refused (`setup-refused`).
   */
  ensureTopics(topics: readonly TopicSpec[]): Promise<void>;
  /** Deletes topics; what does not exist is no error. A topic made again under the same name is empty. */
  deleteTopics(names: readonly string[]): Promise<void>;
  /** Number of partitions; fails with `topic-unknown`. */
  partitions(topic: string): Promise<number>;
  /** Whether a partition takes records now; fails with `topic-unknown`. */
  isLed(topic: string, partition: number): Promise<boolean>;
  /** First offset and the offset after the last committed record of each partition. */
  offsets(topic: string): Promise<{ first: number; end: number }[]>;
  producer(): Promise<BusProducer>;
  lane(id: string): Promise<BusLane>;
  /**
   * Reads one partition from an offset (`first` and `end` are resolved when it opens). Fails with `topic-unknown`; when
   * records from this offset on are no longer kept, it or its first `read` fails with `offset-unknown`.
   */
  reader(topic: string, partition: number, from: number | 'first' | 'end'): Promise<BusReader>;
  /** Joins a consumer group on one topic; partitions are shared between the members. */
  join(group: string, topic: string, handler: GroupHandler): Promise<GroupMember>;
  close(): Promise<void>;
}

export interface TopicSpec {
  name: string;
  partitions: number;
  /**
   * What a transaction has committed here must outlive any single server, or the topic is refused (`delivery-unsupported`): with
   * several of them two copies before an answer, and none that missed a commit becomes the first.
   */
  exactlyOnce?: boolean;
  /** Kept for ever, the last record of each key. */
  compacted?: boolean;
  retentionMs?: number;
  /** Per partition. */
  retentionBytes?: number;
}

export interface BusMessage {
  partition: number;
  key: string | null;
  value: Uint8Array | null;
  headers?: Readonly<Record<string, string>>;
}

export interface BusRecord extends BusMessage {
  offset: number;
  /** Broker's or producer's time of the record, UTC ms. */
  timestampMs: number;
  headers: Readonly<Record<string, string>>;
}

/**
 * Triggers on their way into one `send` or `commit`, without an object for each of them: a bus that keeps records as bytes
 * writes them here at once. What it was made for must take it in the same turn of the event loop.
 */
export interface TriggerBatch {
  /** Records and (roughly) bytes so far. */
  readonly count: number;
  readonly bytes: number;
  /** One occurrence of a job at a place (shard and number); times in UTC ms. */
  add(topic: string, head: TriggerHead, shard: number, number: number, nominalMs: number, effectiveMs: number): void;
  /** A record of any other form. */
  message(topic: string, message: BusMessage): void;
  /** A part of what `send` or `commit` takes. */
  toMessages(): readonly TopicMessages[];
}

export interface TopicMessages {
  topic: string;
  messages: readonly BusMessage[];
}

/**
 * Why records of one partition could not be sent, for certain. `topic-unknown`, and `no-leader` (of triggers only; others wait for
 * one): none of the batch for this partition is durable. `record-too-large`: those that `places` names are not; all others are.
 * `outcome-unknown` (of triggers only, beside others that are durable): some or all may be durable; in a commit none is.
 */
export interface SendFailure {
  topic: string;
  partition: number;
  code: 'topic-unknown' | 'record-too-large' | 'no-leader' | 'outcome-unknown';
  /** Of `record-too-large`: places of the records among those of the call for this partition, in their order, from 0. */
  places?: readonly number[];
}

/** A commit that was refused for certain parts of it. Nothing of it is durable; what is left without them may be committed. */
export class CommitRefused extends CarillonError {
  readonly failures: readonly SendFailure[];

  constructor(failures: readonly SendFailure[]) {
    const { code, topic, partition } = failures[0]!;
    const known = code === 'topic-unknown' || code === 'record-too-large';
    super(known ? code : 'unavailable', `${topic}/${partition}${known ? '' : ` (${code})`}`);
    this.failures = failures;
  }
}

export interface BusProducer {
  /** Begins triggers for one `send`; absent: this bus takes them as messages. */
  triggers?(): TriggerBatch;
  /** Makes what is constant in the triggers of a job ahead of its time; else it is made with the first of them. */
  prepare?(head: TriggerHead, shard: number, number: number): void;
  /** Answers the definite failures (empty: all is durable); throws `unavailable` when the outcome is unknown. */
  send(batch: readonly TopicMessages[]): Promise<SendFailure[]>;
  close(): Promise<void>;
}

/** Offsets of a group: `next` is the offset of the first record that is not yet done. */
export interface GroupOffset {
  group: string;
  topic: string;
  partition: number;
  next: number;
  /** As it came with the partition: then the commit fails (`unavailable`) where another member has the partition by now. */
  holder?: GroupHolder;
}

/** The member that holds a partition, in one generation of its group. */
export interface GroupHolder {
  generation: number;
  member: string;
}

export interface BusLane {
  readonly id: string;
  /** Begins triggers for the next `commit`, while none runs; absent: this bus takes them as messages. */
  triggers?(): TriggerBatch;
  /**
   * Throws `lane-fenced`, or another error when it was certainly not committed: `CommitRefused` for what cannot be written,
   * else `unavailable`. One commit at a time.
   */
  commit(batch: readonly TopicMessages[], offsets?: readonly GroupOffset[]): Promise<void>;
  close(): Promise<void>;
}

export interface BusReader {
  /** Offset of the next record that `read` will give. */
  readonly position: number;
  /** The next committed records, at most `maxRecords` (default 1,000); empty when none came within `maxWaitMs`, or at close. */
  read(maxWaitMs: number, maxRecords?: number): Promise<BusRecord[]>;
  /**
   * Whether everything that readers could see when this was asked has been read. `written`: also what was written and is not
   * decided, or decided and not shown yet, so that nothing is missing whose commit was answered before; false while a
   * transaction is open here.
   */
  caughtUp(upTo?: 'visible' | 'written'): Promise<boolean>;
  close(): Promise<void>;
}

/** A partition that a group member works on; it ends when `signal` is aborted (partition taken away, or member closed). */
export interface GroupPartition {
  topic: string;
  partition: number;
  /** Offset from which records will come: the committed one, or the first of the log. */
  next: number;
  signal: AbortSignal;
  /** To be named with the offsets that a lane commits: one lane may then commit for all partitions that a member holds. */
  holder: GroupHolder;
}

export interface GroupHandler {
  /** Called once when a partition is given, before its first batch. */
  assigned?(partition: GroupPartition): Promise<void>;
  /** One batch of one partition, in order; batches of a partition never overlap. A throw repeats the batch after a pause. */
  batch(partition: GroupPartition, records: readonly BusRecord[]): Promise<void>;
  /** Called when a partition was taken away or the member closes, after the last batch has ended. */
  revoked?(partition: GroupPartition): Promise<void>;
}

/** Group offsets are stored by `lane.commit(..., offsets)` or by `commit` here. */
export interface GroupMember {
  commit(partition: number, next: number): Promise<void>;
  close(): Promise<void>;
}
