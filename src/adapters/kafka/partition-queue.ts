import type { CarillonError } from '../../core/errors.ts';
import type { SendFailure } from '../../ports/bus.ts';
import type { Chunk } from './delivery.ts';
import { recordsIn } from './delivery.ts';
import type { Identity, RecordBatchEncoder } from './record-batch.ts';

/** Bytes of a batch: below max.message.bytes, whose default is 1,048,588. A single larger record stands alone. */
const BATCH_BYTES = 1_000_000;

/** A record batch on its way. Its bytes stay the same over repeats, so that the broker knows it again. */
interface Batch {
  chunks: Chunk[];
  bytes: Buffer;
  count: number;
  firstSentMs: number;
  attempts: number;
  /** An attempt had no answer: the records may be in the log. */
  uncertain: boolean;
}

/**
 * What waits for one partition, in order, and the one batch that is on its way: with one at a time a repeat can neither
 * overtake nor be overtaken.
 */
export class PartitionQueue {
  readonly topic: string;
  readonly partition: number;
  /** Null: a new one is needed, since the broker's count of sequences is not known any more. */
  identity: Identity | null;
  batch: Batch | null = null;
  #chunks: Chunk[] = [];
  #sequence = 0;
  /** Records of the next batch at most: halved when the broker finds one too large, doubled when one went through. */
  #limit = Number.MAX_SAFE_INTEGER;

  constructor(topic: string, partition: number, identity: Identity | null) {
    this.topic = topic;
    this.partition = partition;
    this.identity = identity;
  }

  push(chunk: Chunk): void {
    this.#chunks.push(chunk);
  }

  get idle(): boolean {
    return this.batch === null && this.#chunks.length === 0;
  }

  /** When the call of the oldest record began, by the monotonic clock in ms. */
  get oldestMs(): number {
    return (this.batch?.chunks[0] ?? this.#chunks[0])?.delivery.startedMs ?? Number.POSITIVE_INFINITY;
  }

  /** Gives the queue to another identity, whose sequences start at 0. */
  begin(identity: Identity): void {
    this.identity = identity;
    this.#sequence = 0;
  }

  /** The batch to send: the one that must be repeated, or the next one made of what waits. */
  next(encoder: RecordBatchEncoder, transactional: boolean, identity: Identity): Batch {
    if (this.batch !== null) return this.batch;
    encoder.begin(Date.now());
    const chunks: Chunk[] = [];
    for (let full = false; !full && this.#chunks.length > 0; ) {
      const { delivery, messages } = this.#chunks[0]!;
      let taken = 0;
      while (taken < messages.length && encoder.count < this.#limit && encoder.append(messages[taken]!, BATCH_BYTES)) {
        taken += 1;
      }
      full = taken < messages.length;
      if (taken > 0) chunks.push({ delivery, messages: full ? messages.slice(0, taken) : messages });
      if (full) this.#chunks[0] = { delivery, messages: messages.slice(taken) };
      else this.#chunks.shift();
    }
    const bytes = encoder.finish(identity, this.#sequence, transactional);
    const firstSentMs = performance.now();
    this.batch = { chunks, bytes, count: encoder.count, firstSentMs, attempts: 0, uncertain: false };
    return this.batch;
  }

  acknowledged(): void {
    const { chunks, count } = this.#take();
    // Sequences are 31 bits and start again at 0.
    this.#sequence = (this.#sequence + count) % 2 ** 31;
    this.#limit *= 2;
    for (const { delivery, messages } of chunks) delivery.acknowledged(messages.length);
  }

  /** The broker did not take the batch: it is made anew, with a sequence of the identity that holds then. */
  remake(): void {
    this.#chunks.unshift(...this.#take().chunks);
  }

  /** The batch is larger than the topic allows: it goes in halves, and a single record that is too large fails. */
  halve(): void {
    const { chunks, count } = this.#take();
    if (count === 1) {
      for (const { delivery, messages } of chunks) {
        delivery.refused(this.topic, this.partition, 'record-too-large', messages);
      }
      this.#limit *= 2;
      return;
    }
    this.#limit = Math.ceil(count / 2);
    this.#chunks.unshift(...chunks);
  }

  /** Fails the batch alone; what waits behind it goes on. */
  failBatch(error: CarillonError): void {
    for (const { delivery, messages } of this.#take().chunks) delivery.failed(messages.length, error);
  }

  failAll(error: CarillonError): void {
    if (this.batch !== null) this.failBatch(error);
    for (const { delivery, messages } of this.#chunks.splice(0)) delivery.failed(messages.length, error);
  }

  refuseAll(code: SendFailure['code']): void {
    if (this.batch !== null) this.remake();
    for (const { delivery, messages } of this.#chunks.splice(0)) {
      delivery.refused(this.topic, this.partition, code, messages);
    }
  }

  get records(): number {
    return recordsIn(this.#chunks) + (this.batch?.count ?? 0);
  }

  #take(): Batch {
    const batch = this.batch!;
    this.batch = null;
    return batch;
  }
}
