import type { CarillonError } from '../../core/errors.ts';
import type { BusMessage, SendFailure } from '../../ports/bus.ts';
import { type Chunk, type Delivery, partChunks } from './delivery.ts';
import { type Identity, RecordBatchEncoder } from './record-batch.ts';
import { type TopicSettings, UNKNOWN_SETTINGS } from './topic-settings.ts';

/**
 * Bytes of a batch before compression, where its topic does not bound it further (`max.message.bytes`, by default 1,048,588). A
 * single larger record stands alone.
 */
const BATCH_BYTES = 1_000_000;
/** A batch that the broker found too large is halved; each one that it takes lets the next grow by this factor. */
const GROWTH = 1.1;

/** A record batch that is filled, waits or is on its way. */
interface Batch {
  encoder: RecordBatchEncoder;
  chunks: Chunk[];
}

/** The batch on its way. Its bytes stay the same over repeats, so that the broker knows it again. */
interface Flight extends Batch {
  bytes: Buffer;
  firstSentMs: number;
  attempts: number;
  /** An attempt had no answer: the records may be in the log. */
  uncertain: boolean;
}

/** Buffers of batches, used again: a new one of 1 MB costs more than the records in it. */
export class Buffers {
  static readonly #KEPT = 32;
  readonly #spare: RecordBatchEncoder[] = [];

  take(): RecordBatchEncoder {
    const encoder = this.#spare.pop() ?? new RecordBatchEncoder();
    encoder.begin(0);
    return encoder;
  }

  give(encoder: RecordBatchEncoder): void {
    if (this.#spare.length < Buffers.#KEPT) this.#spare.push(encoder);
  }
}

/** Where records of one delivery go in one partition. */
export interface Place {
  readonly queue: PartitionQueue;
  readonly delivery: Delivery;
  /** The batch that took the last record, and its chunk of this delivery. */
  batch: Batch | null;
  chunk: Chunk | null;
  /** Records so far. */
  count: number;
}

/**
 * What waits for one partition, in order, and the one batch that is on its way: with one at a time a repeat can neither
 * overtake nor be overtaken. Records are written into the last batch as they come, whoever sends them, so that those of many
 * calls go as one.
 */
export class PartitionQueue {
  readonly topic: string;
  readonly partition: number;
  /** Null: a new one is needed, since the broker's count of sequences is not known any more. */
  identity: Identity | null;
  flight: Flight | null = null;
  readonly #buffers: Buffers;
  readonly #settings: Readonly<TopicSettings>;
  #open: Batch | null = null;
  #waiting: Batch[] = [];
  #sequence = 0;
  #limitBytes = BATCH_BYTES;

  constructor(
    topic: string,
    partition: number,
    identity: Identity | null,
    buffers: Buffers,
    settings: Readonly<TopicSettings> = UNKNOWN_SETTINGS,
  ) {
    this.topic = topic;
    this.partition = partition;
    this.identity = identity;
    this.#buffers = buffers;
    this.#settings = settings;
  }

  place(delivery: Delivery): Place {
    return { queue: this, delivery, batch: null, chunk: null, count: 0 };
  }

  append(place: Place, message: BusMessage): void {
    if (this.#openFor(place).encoder.append(message, this.#bound)) this.#counted(place);
    else this.#beyond(place, (encoder, limitBytes) => encoder.append(message, limitBytes));
  }

  /** As `RecordBatchEncoder.appendContent`: the hot path. */
  appendContent(place: Place, first: Uint8Array, last: Uint8Array): void {
    if (this.#openFor(place).encoder.appendContent(first, last, this.#bound)) this.#counted(place);
    else this.#beyond(place, (encoder, limitBytes) => encoder.appendContent(first, last, limitBytes));
  }

  get #bound(): number {
    return Math.min(this.#limitBytes, this.#settings.maxBytes);
  }

  /**
   * The record does not go into the open batch: into one of its own then, as large as the topic allows. What is larger than that
   * fails here and is never sent.
   */
  #beyond(place: Place, write: (encoder: RecordBatchEncoder, limitBytes: number) => boolean): void {
    if (this.#open!.encoder.count > 0) {
      this.#waiting.push(this.#open!);
      this.#open = null;
      if (write(this.#openFor(place).encoder, this.#bound)) {
        this.#counted(place);
        return;
      }
    }
    const { encoder } = this.#openFor(place);
    if (write(encoder, this.#settings.maxBytes)) {
      this.#counted(place);
      this.#waiting.push(this.#open!);
    } else {
      this.#buffers.give(encoder);
      place.delivery.refused(this.topic, this.partition, 'record-too-large', { first: place.count, count: 1 });
      place.count += 1;
    }
    this.#open = null;
  }

  #openFor(place: Place): Batch {
    const open = this.#open;
    if (open !== null && open === place.batch) return open;
    this.#open = open ?? { encoder: this.#buffers.take(), chunks: [] };
    place.batch = this.#open;
    place.chunk = null;
    return this.#open;
  }

  #counted(place: Place): void {
    if (place.chunk === null) {
      place.chunk = { delivery: place.delivery, first: place.count, count: 0 };
      place.batch!.chunks.push(place.chunk);
    }
    place.chunk.count += 1;
    place.count += 1;
  }

  get idle(): boolean {
    return this.flight === null && this.#waiting.length === 0 && this.#open === null;
  }

  /** When the call of the oldest record began, by the monotonic clock in ms. */
  get oldestMs(): number {
    const oldest = this.flight ?? this.#waiting[0] ?? this.#open;
    return oldest?.chunks[0]?.delivery.startedMs ?? Number.POSITIVE_INFINITY;
  }

  /** Gives the queue to another identity, whose sequences start at 0. */
  begin(identity: Identity): void {
    this.identity = identity;
    this.#sequence = 0;
  }

  /** The batch to send: the one that must be repeated, or the next one that waits. */
  next(transactional: boolean, identity: Identity): Flight {
    if (this.flight !== null) return this.flight;
    let batch = this.#waiting.shift();
    if (batch === undefined) {
      batch = this.#open!;
      this.#open = null;
    }
    batch.encoder.timestampMs = Date.now();
    const bytes = batch.encoder.seal(identity, this.#sequence, transactional, this.#settings.codec);
    this.flight = { ...batch, bytes, firstSentMs: performance.now(), attempts: 0, uncertain: false };
    return this.flight;
  }

  acknowledged(): void {
    const { encoder, chunks } = this.#take();
    // Sequences are 31 bits and start again at 0.
    this.#sequence = (this.#sequence + encoder.count) % 2 ** 31;
    this.#limitBytes = Math.min(BATCH_BYTES, this.#limitBytes * GROWTH);
    for (const { delivery, count } of chunks) delivery.acknowledged(count);
    this.#buffers.give(encoder);
  }

  /** The broker did not take the batch: it is made anew, with a sequence of the identity that holds then. */
  remake(): void {
    this.#waiting.unshift(this.#take());
  }

  /** The batch is larger than the topic allows: it goes in halves, and a single record that is too large fails. */
  halve(): void {
    const { encoder, chunks } = this.#take();
    if (encoder.count === 1) {
      const [chunk] = chunks;
      chunk!.delivery.refused(this.topic, this.partition, 'record-too-large', chunk!);
      this.#buffers.give(encoder);
      return;
    }
    const half = Math.ceil(encoder.count / 2);
    const [before, after] = partChunks(chunks, half);
    this.#limitBytes = Math.max(1, Math.min(this.#limitBytes, encoder.size / 2));
    const other = this.#buffers.take();
    encoder.moveTo(other, half);
    this.#waiting.unshift({ encoder, chunks: before }, { encoder: other, chunks: after });
  }

  /** Fails the batch alone; what waits behind it goes on. */
  failBatch(error: CarillonError): void {
    this.#fail([this.#take()], error);
  }

  failAll(error: CarillonError): void {
    this.#fail(this.#takeAll(), error);
  }

  refuseAll(code: SendFailure['code']): void {
    this.#refuse(this.#takeAll(), code);
  }

  /** What no attempt may have brought to a leader fails, for certain, but for those who wait for one. */
  refuseUnled(): void {
    const waits = ({ chunks }: Batch): boolean => chunks.some(({ delivery }) => delivery.waits);
    const { flight } = this;
    if (flight !== null && !flight.uncertain && !waits(flight)) this.#refuse([this.#take()], 'no-leader');
    const refused = this.#waiting.filter((batch) => !waits(batch));
    this.#waiting = this.#waiting.filter(waits);
    if (this.#open !== null && !waits(this.#open)) {
      refused.push(this.#open);
      this.#open = null;
    }
    this.#refuse(refused, 'no-leader');
  }

  #refuse(batches: readonly Batch[], code: SendFailure['code']): void {
    for (const { chunks } of batches) {
      for (const chunk of chunks) chunk.delivery.refused(this.topic, this.partition, code, chunk);
    }
  }

  /** What fails may still be on its way to the broker, so its buffers are not used again. */
  #fail(batches: readonly Batch[], error: CarillonError): void {
    for (const { chunks } of batches)
      for (const { delivery, count } of chunks) delivery.failed(this.topic, this.partition, count, error);
  }

  #take(): Flight {
    const flight = this.flight!;
    this.flight = null;
    return flight;
  }

  #takeAll(): Batch[] {
    const all = [this.flight, ...this.#waiting.splice(0), this.#open].filter((batch) => batch !== null);
    this.flight = null;
    this.#open = null;
    return all;
  }
}
