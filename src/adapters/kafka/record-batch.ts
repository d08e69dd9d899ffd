import { crc32c } from '@platformatic/kafka';
import type { BusMessage } from '../../ports/bus.ts';

/** Who sends: the broker tells repeats of a batch by id, epoch and sequence. */
export interface Identity {
  readonly producerId: bigint;
  readonly epoch: number;
}

/**
 * Writes record batches of Kafka's message format 2 (https://kafka.apache.org/documentation/#recordbatch) without
 * compression. One encoder is used again and again: `begin`, `append` per record, `finish` answers a copy.
 *
 * Batch header, offsets in bytes: base offset 0, length 8 (of what follows it), leader epoch 12, magic 16, CRC-32C 17 (of
 * what follows it), attributes 21, last offset delta 23, first timestamp 27, last timestamp 35, producer id 43, producer
 * epoch 51, base sequence 53, count 57, records 61.
 */
const HEADER_BYTES = 61;
const TRANSACTIONAL = 1 << 4;
/** Names of headers are few and come again with each record: their bytes are kept, but not without bound. */
const NAMES_KEPT = 1_000;

export class RecordBatchEncoder {
  #buffer = Buffer.allocUnsafeSlow(64 * 1024);
  #end = HEADER_BYTES;
  #count = 0;
  #timestampMs = 0;
  readonly #names = new Map<string, Buffer>();

  /** All records of a batch get this time, UTC ms. */
  begin(timestampMs: number): void {
    this.#end = HEADER_BYTES;
    this.#count = 0;
    this.#timestampMs = timestampMs;
  }

  get count(): number {
    return this.#count;
  }

  /**
   * Appends a record if the batch stays within `limitBytes` with it; the first record of a batch always goes in.
   * Answers whether it did.
   */
  append(message: BusMessage, limitBytes: number): boolean {
    const start = this.#end;
    // The length stands before the record and is known after it: its place is held for the longest form, then closed up.
    let end = start + 5;
    this.#room(boundOf(message));
    this.#buffer[end] = 0; // Attributes: none are defined.
    this.#buffer[end + 1] = 0; // Time after the batch's first time.
    end = this.#varint(end + 2, this.#count);
    end = message.key === null ? this.#varint(end, -1) : this.#text(end, message.key);
    end = this.#bytes(end, message.value);
    end = this.#headers(end, message.headers);
    const length = end - start - 5;
    const body = this.#varint(start, length);
    this.#buffer.copyWithin(body, start + 5, end);
    if (this.#count > 0 && body + length > limitBytes) return false;
    this.#end = body + length;
    this.#count += 1;
    return true;
  }

  finish(identity: Identity, sequence: number, transactional: boolean): Buffer {
    const bytes = Buffer.from(this.#buffer.subarray(0, this.#end));
    bytes.writeBigInt64BE(0n, 0);
    bytes.writeInt32BE(this.#end - 12, 8);
    bytes.writeInt32BE(-1, 12);
    bytes.writeInt8(2, 16);
    bytes.writeInt16BE(transactional ? TRANSACTIONAL : 0, 21);
    bytes.writeInt32BE(this.#count - 1, 23);
    bytes.writeBigInt64BE(BigInt(this.#timestampMs), 27);
    bytes.writeBigInt64BE(BigInt(this.#timestampMs), 35);
    bytes.writeBigInt64BE(identity.producerId, 43);
    bytes.writeInt16BE(identity.epoch, 51);
    bytes.writeInt32BE(sequence, 53);
    bytes.writeInt32BE(this.#count, 57);
    bytes.writeUInt32BE(crc32c(bytes.subarray(21)), 17);
    return bytes;
  }

  #headers(at: number, headers: BusMessage['headers']): number {
    if (headers === undefined) return this.#varint(at, 0);
    const names = Object.keys(headers);
    let end = this.#varint(at, names.length);
    for (const name of names) {
      end = this.#bytes(end, this.#nameBytes(name));
      end = this.#text(end, headers[name]!);
    }
    return end;
  }

  #nameBytes(name: string): Buffer {
    let bytes = this.#names.get(name);
    if (bytes === undefined) {
      bytes = Buffer.from(name);
      if (this.#names.size < NAMES_KEPT) this.#names.set(name, bytes);
    }
    return bytes;
  }

  /** Bytes with their length before them; null is the length -1. */
  #bytes(at: number, bytes: Uint8Array | null): number {
    if (bytes === null) return this.#varint(at, -1);
    const end = this.#varint(at, bytes.length);
    this.#buffer.set(bytes, end);
    return end + bytes.length;
  }

  /** Text as UTF-8; its length is guessed to be that of ASCII, and the text written again where it was not. */
  #text(at: number, text: string): number {
    const guess = at + varintBytes(text.length);
    const length = this.#buffer.write(text, guess);
    const start = this.#varint(at, length);
    if (start !== guess) this.#buffer.write(text, start);
    return start + length;
  }

  /** Signed varint in zigzag form: 0, -1, 1, -2 become 0, 1, 2, 3. */
  #varint(at: number, value: number): number {
    let rest = ((value << 1) ^ (value >> 31)) >>> 0;
    let end = at;
    while (rest > 0x7f) {
      this.#buffer[end++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.#buffer[end++] = rest;
    return end;
  }

  #room(bytes: number): void {
    const needed = this.#end + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#end);
    this.#buffer = larger;
  }
}

function varintBytes(value: number): number {
  if (value < 64) return 1;
  if (value < 8_192) return 2;
  if (value < 1_048_576) return 3;
  return value < 134_217_728 ? 4 : 5;
}

/** A record needs no more than this: three bytes of UTF-8 per UTF-16 unit, five per length. */
function boundOf({ key, value, headers }: BusMessage): number {
  let bound = 32 + (key === null ? 0 : key.length * 3) + (value === null ? 0 : value.length);
  if (headers !== undefined) {
    for (const name in headers) bound += 10 + (name.length + headers[name]!.length) * 3;
  }
  return bound;
}
