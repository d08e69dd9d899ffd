/**
 * Reads Kafka's record batches (message format 2, https://kafka.apache.org/documentation/#recordbatch) as a broker answers
 * them to a Fetch, and makes no object for a record. It is written for the benchmarks and shares no code with `src/`.
 *
 * Of a trigger it takes two things: the number of the job, which is the run of digits at the end of the key, and the nominal
 * time, which ends the execution id `SHARD-NUMBER-NOMINALMS` in the header `id` (compact) or `ce_id` (CloudEvents).
 */
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { crc32c } from '@platformatic/kafka';
import { lz4Frame } from './lz4.ts';
import { Cursor } from './varints.ts';

/** Takes what the log holds, in its order. Times are UTC ms by the broker's clock. */
export interface LogSink {
  /**
   * A record of a batch; `transaction` names the open transaction of its producer in its partition, -1: there is none. `place`
   * is the shard and number of its execution id as one number: copies with the same nominal time and place have the same id.
   */
  trigger(job: number, nominalMs: number, atMs: number, transaction: number, place: number): void;
  /** A record whose key or id is none of a trigger. */
  foreign(): void;
  /** The end of a transaction in one partition. */
  ended(transaction: number, committed: boolean, atMs: number): void;
}

/** Offsets of the fields of a batch, in bytes. */
const LENGTH_AT = 8;
const CHECKSUM_AT = 17;
const ATTRIBUTES_AT = 21;
const LAST_DELTA_AT = 23;
const MAX_TIMESTAMP_AT = 35;
const PRODUCER_AT = 43;
const COUNT_AT = 57;
const RECORDS_AT = 61;
/** What stands before the field that `length` counts from. */
const LENGTH_END = 12;

const COMPRESSION = 0b111;
const BROKER_TIME = 1 << 3;
const TRANSACTIONAL = 1 << 4;
const CONTROL = 1 << 5;
const COMMIT = 1;

/** A transaction ends in each partition by a mark of its own, so it is named by producer and partition. */
const PARTITIONS_MOST = 4_096;

/** Numbers of jobs within a shard as this reader tells them apart; a shard holds 10,000 jobs at a time. */
export const SHARD_NUMBERS = 2 ** 32;
const DASH = 45;
const ZERO = 48;
const NINE = 57;

export class NoBrokerTime extends Error {}
/** Bytes that are no batch, or not the batch that was written. */
export class BrokenBatch extends Error {}

export class BatchReader {
  readonly #cursor = new Cursor();
  readonly #sink: LogSink;
  #nominalMs = -1;
  #place = -1;
  /** Batches and bytes read, for the report. */
  batches = 0;

  constructor(sink: LogSink) {
    this.#sink = sink;
  }

  /**
   * Reads the batches of one partition from `fromOffset` on; the last one may be cut short, and is left for the next Fetch.
   * Answers the offset after the last record read.
   * @throws NoBrokerTime when a batch outside of a transaction has the producer's time, which is no judge of the producer
   * @throws BrokenBatch when its checksum is another, or its lengths do not add up; another error when it cannot be unpacked
   */
  read(partition: number, bytes: Buffer, fromOffset: number): number {
    let next = fromOffset;
    for (let at = 0; at + RECORDS_AT <= bytes.length; ) {
      const end = at + LENGTH_END + bytes.readInt32BE(at + LENGTH_AT);
      if (end > bytes.length) break;
      const base = Number(bytes.readBigInt64BE(at));
      const after = base + bytes.readInt32BE(at + LAST_DELTA_AT) + 1;
      if (after > fromOffset) {
        this.#batch(partition, bytes.subarray(at, end), fromOffset - base);
        next = after;
      }
      at = end;
    }
    return next;
  }

  /**
   * Reads records as the embedded product keeps them in a row: the length of each as an unsigned varint, then its content as in
   * a record of Kafka. Answers how many there are.
   */
  block(bytes: Uint8Array, atMs: number): number {
    const cursor = this.#cursor;
    cursor.bytes = bytes;
    cursor.at = 0;
    let records = 0;
    for (; cursor.at < bytes.length; records += 1) {
      const length = cursor.unsigned();
      const end = cursor.at + length;
      this.#content(atMs, -1);
      cursor.at = end;
    }
    return records;
  }

  #batch(partition: number, bytes: Buffer, skip: number): void {
    this.batches += 1;
    // The checksum is CRC-32C of all that follows it.
    if (crc32c(bytes.subarray(ATTRIBUTES_AT)) !== bytes.readUInt32BE(CHECKSUM_AT)) {
      throw new BrokenBatch(`the checksum of a batch at offset ${bytes.readBigInt64BE(0)} is wrong`);
    }
    const attributes = bytes.readInt16BE(ATTRIBUTES_AT);
    const atMs = Number(bytes.readBigInt64BE(MAX_TIMESTAMP_AT));
    const producer = Number(bytes.readBigInt64BE(PRODUCER_AT)) * PARTITIONS_MOST + partition;
    if ((attributes & CONTROL) !== 0) {
      this.#mark(bytes, producer, atMs);
      return;
    }
    const transaction = (attributes & TRANSACTIONAL) === 0 ? -1 : producer;
    if (transaction === -1 && (attributes & BROKER_TIME) === 0) {
      throw new NoBrokerTime('the topic has the time of its producers; set message.timestamp.type to LogAppendTime');
    }
    const count = bytes.readInt32BE(COUNT_AT);
    this.#cursor.bytes = uncompressed(bytes.subarray(RECORDS_AT), attributes & COMPRESSION);
    this.#cursor.at = 0;
    // A record has a byte at least, so a count that is wrong ends here and not after 2^31 turns.
    if (count > this.#cursor.bytes.length) throw new BrokenBatch(`a batch says that it has ${count} records`);
    for (let i = 0; i < count; i += 1) this.#record(i >= skip, atMs, transaction);
  }

  /** A mark's key is its version and its kind, two bytes each: 0 aborts, 1 commits. */
  #mark(bytes: Buffer, producer: number, atMs: number): void {
    const cursor = this.#cursor;
    cursor.bytes = bytes;
    cursor.at = RECORDS_AT;
    cursor.varint();
    cursor.at += 1;
    cursor.skipVarint();
    cursor.varint();
    if (cursor.varint() < 4) return;
    this.#sink.ended(producer, bytes.readInt16BE(cursor.at + 2) === COMMIT, atMs);
  }

  #record(wanted: boolean, atMs: number, transaction: number): void {
    const cursor = this.#cursor;
    const length = cursor.varint();
    const end = cursor.at + length;
    if (length <= 0 || end > cursor.bytes.length) throw new BrokenBatch(`a record has ${length} bytes`);
    if (wanted) {
      cursor.at += 1;
      cursor.skipVarint();
      cursor.varint();
      this.#content(atMs, transaction);
    }
    cursor.at = end;
  }

  /** Key, value and headers. */
  #content(atMs: number, transaction: number): void {
    const cursor = this.#cursor;
    const job = this.#job();
    const value = cursor.varint();
    if (value > 0) cursor.at += value;
    this.#nominalMs = -1;
    const headers = cursor.varint();
    if (headers > cursor.bytes.length - cursor.at) throw new BrokenBatch(`a record has ${headers} headers`);
    for (let left = headers; left > 0; left -= 1) this.#header();
    if (job < 0 || this.#nominalMs < 0) this.#sink.foreign();
    else this.#sink.trigger(job, this.#nominalMs, atMs, transaction, this.#place);
  }

  /** The digits that end the key; -1 if it ends in none. */
  #job(): number {
    const cursor = this.#cursor;
    const length = cursor.varint();
    if (length <= 0) return -1;
    const { bytes, at: start } = cursor;
    const end = start + length;
    let at = end;
    while (at > start && bytes[at - 1]! >= ZERO && bytes[at - 1]! <= NINE) at -= 1;
    let job = at === end ? -1 : 0;
    for (; at < end; at += 1) job = job * 10 + bytes[at]! - ZERO;
    cursor.at = end;
    return job;
  }

  #header(): void {
    const cursor = this.#cursor;
    const nameLength = cursor.varint();
    const name = cursor.at;
    cursor.at += nameLength;
    const length = cursor.varint();
    const { bytes, at: value } = cursor;
    if (length > 0) cursor.at += length;
    // `id` or `ce_id`: both end in "id", and no other header of a trigger is two or five long and does.
    if (nameLength !== 2 && nameLength !== 5) return;
    if (bytes[name + nameLength - 2] !== 0x69 || bytes[name + nameLength - 1] !== 0x64) return;
    this.#id(bytes, value, value + length);
  }

  /** The parts of `SHARD-NUMBER-NOMINALMS`; the time stays -1 for another form, as that of a run by hand. */
  #id(bytes: Uint8Array, from: number, to: number): void {
    let dashes = 0;
    let value = 0;
    this.#place = 0;
    for (let at = from; at < to; at += 1) {
      const byte = bytes[at]!;
      if (byte === DASH) {
        dashes += 1;
        this.#place = this.#place * SHARD_NUMBERS + value;
        value = 0;
      } else if (byte >= ZERO && byte <= NINE) value = value * 10 + byte - ZERO;
      else return;
    }
    if (dashes === 2) this.#nominalMs = value;
  }
}

/** The records of a batch, as Kafka's codecs 1 (gzip), 3 (lz4) and 4 (zstd) have them. */
function uncompressed(bytes: Buffer, codec: number): Uint8Array {
  switch (codec) {
    case 0:
      return bytes;
    case 1:
      return gunzipSync(bytes);
    case 3:
      return lz4Frame(bytes);
    case 4:
      return zstdDecompressSync(bytes);
    default:
      throw new Error(`the reader knows no codec ${codec}`);
  }
}
