import type { BusMessage, SendFailure, TopicMessages } from '../../ports/bus.ts';
import { admit } from '../local/admission.ts';
import { recordsOf } from '../local/watchers.ts';
import { BlockWriter } from './block.ts';
import type { Database } from './database.ts';
import { BlockTriggers } from './trigger-batch.ts';

/** What a row of a record or a block takes beside its data, in bytes. */
export const ROW_OVERHEAD_BYTES = 24;

export interface TopicRow {
  id: number;
  partitions: number;
  compacted: number;
}

/** End of a partition that a transaction touches: read once, written once. */
interface Tail {
  topic: number;
  partition: number;
  next: number;
  bytes: number;
  /** Messages that have no block yet. */
  writer: BlockWriter;
}

export function topicRow(db: Database, name: string): TopicRow | undefined {
  return db.get<TopicRow>('SELECT id, partitions, compacted FROM topics WHERE name = ?', name);
}

/** Records that go into the log as one transaction, which is open while this lives. */
export class LogTransaction {
  readonly #db: Database;
  readonly #atMs: number;
  readonly #topics = new Map<string, TopicRow | undefined>();
  readonly #tails = new Map<string, Tail>();

  constructor(db: Database, atMs: number) {
    this.#db = db;
    this.#atMs = atMs;
  }

  /** Appends what can be written and answers what cannot, for certain; `whole`: nothing is appended then. */
  append(batch: readonly TopicMessages[], whole: boolean): SendFailure[] {
    const { good, failures } = admit(batch, (topic) => this.#topic(topic)?.partitions ?? 0);
    for (const one of batch) if (one instanceof BlockTriggers) failures.push(...this.#refusals(one));
    if (whole && failures.length > 0) return failures;
    for (const [i, { topic, messages }] of good.entries()) {
      if (batch[i] instanceof BlockTriggers) this.#appendTriggers(batch[i]);
      else if (messages.length > 0) this.#appendMessages(topic, messages);
    }
    return failures;
  }

  /** Writes what waits for the end of the transaction; answers the names of the partitions with new records. */
  end(): string[] {
    for (const tail of this.#tails.values()) {
      this.#writeBlocks(tail, tail.writer);
      tail.writer.release();
      const sql = 'UPDATE partitions SET next = ?, bytes = bytes + ? WHERE topic = ? AND partition = ?';
      this.#db.run(sql, tail.next, tail.bytes, tail.topic, tail.partition);
    }
    return [...this.#tails.keys()];
  }

  #topic(name: string): TopicRow | undefined {
    if (!this.#topics.has(name)) this.#topics.set(name, topicRow(this.#db, name));
    return this.#topics.get(name);
  }

  #refusals({ topics, failures: tooLarge }: BlockTriggers): SendFailure[] {
    const failures: SendFailure[] = [...tooLarge.values()];
    for (const [topic, writers] of topics) {
      const partitions = this.#topic(topic)?.partitions ?? 0;
      for (const partition of writers.keys()) {
        if (partition >= partitions && writers[partition] !== undefined) {
          failures.push({ topic, partition, code: 'topic-unknown' });
        }
      }
    }
    return failures;
  }

  #appendTriggers({ topics }: BlockTriggers): void {
    for (const [topic, writers] of topics) {
      const { id } = this.#topic(topic)!;
      for (const [partition, writer] of writers.entries()) {
        if (writer === undefined) continue;
        const tail = this.#tail(topic, id, partition);
        // What was appended before them comes before them.
        this.#writeBlocks(tail, tail.writer);
        tail.writer.release();
        this.#writeBlocks(tail, writer);
      }
    }
  }

  #appendMessages(topic: string, messages: readonly BusMessage[]): void {
    const { id, compacted } = this.#topic(topic)!;
    let tail: Tail | undefined;
    for (const message of messages) {
      // Batches are mostly sorted by partition, so the look-up is rare.
      if (tail?.partition !== message.partition) tail = this.#tail(topic, id, message.partition);
      if (compacted === 1) this.#writeRecord(tail, message);
      else tail.writer.append(message);
    }
  }

  #tail(topicName: string, topic: number, partition: number): Tail {
    const name = recordsOf(topicName, partition);
    const known = this.#tails.get(name);
    if (known !== undefined) return known;
    const sql = 'SELECT next FROM partitions WHERE topic = ? AND partition = ?';
    const { next } = this.#db.get<{ next: number }>(sql, topic, partition)!;
    const tail = { topic, partition, next, bytes: 0, writer: new BlockWriter() };
    this.#tails.set(name, tail);
    return tail;
  }

  #writeBlocks(tail: Tail, writer: BlockWriter): void {
    const sql = 'INSERT INTO blocks (topic, partition, last, records, at, data) VALUES (?, ?, ?, ?, ?, ?)';
    for (const { bytes, records } of writer.blocks()) {
      tail.next += records;
      tail.bytes += ROW_OVERHEAD_BYTES + bytes.length;
      this.#db.run(sql, tail.topic, tail.partition, tail.next - 1, records, this.#atMs, bytes);
    }
  }

  /** A compacted topic has a row per record and keeps one per key: the one before goes as the new one comes. */
  #writeRecord(tail: Tail, { key, value, headers }: BusMessage): void {
    const { topic, partition, next } = tail;
    if (key !== null) this.#supersede(tail, key);
    const text = headersText(headers);
    const sql = 'INSERT INTO messages (topic, partition, offset, key, value, headers, at) VALUES (?, ?, ?, ?, ?, ?, ?)';
    this.#db.run(sql, topic, partition, next, key, value, text, this.#atMs);
    tail.next += 1;
    tail.bytes += ROW_OVERHEAD_BYTES + (key?.length ?? 0) + (value?.length ?? 0) + (text?.length ?? 0);
  }

  #supersede(tail: Tail, key: string): void {
    const { topic, partition, next } = tail;
    const sql = 'SELECT offset FROM compacted WHERE topic = ? AND partition = ? AND key = ?';
    const former = this.#db.get<{ offset: number }>(sql, topic, partition, key);
    if (former !== undefined) {
      const removed = this.#db.get<{ bytes: number }>(
        `DELETE FROM messages WHERE topic = ? AND partition = ? AND offset = ?
         RETURNING coalesce(length(value), 0) + coalesce(length(headers), 0) AS bytes`,
        topic,
        partition,
        former.offset,
      );
      tail.bytes -= ROW_OVERHEAD_BYTES + key.length + (removed?.bytes ?? 0);
    }
    this.#db.run(
      'INSERT OR REPLACE INTO compacted (topic, partition, key, offset) VALUES (?, ?, ?, ?)',
      topic,
      partition,
      key,
      next,
    );
  }
}

function headersText(headers: BusMessage['headers']): string | null {
  if (headers === undefined) return null;
  for (const _name in headers) return JSON.stringify(headers);
  return null;
}
