import { crc32c } from '@platformatic/kafka';
import type { BusMessage } from '../../ports/bus.ts';
import type { Codec } from './compression.ts';

/** Who sends: the broker tells repeats of a batch by id, epoch and sequence. */
export interface Identity {
  readonly producerId: bigint;
  readonly epoch: number;
}

/**
 * A record batch of Kafka's message format 2 (https://kafka.apache.org/documentation/#recordbatch) in the bytes in which it is
 * sent: records are appended one by one, `seal` compresses them, if asked to, and writes the header before them. A batch that must
 * be sent again keeps its bytes, so the broker knows it again.
 *
 * Batch header, offsets in bytes: base offset 0, length 8 (of what follows it), leader epoch 12, magic 16, CRC-32C 17 (of
 * what follows it), attributes 21, last offset delta 23, first timestamp 27, last timestamp 35, producer id 43, producer
 * epoch 51, base sequence 53, count 57, records 61. A record: length (varint, of what follows it), attributes, time after the
 * batch's first (varint), offset after the batch's first (varint), key, value, headers.
 */
const HEADER_BYTES = 61;
const FIRST_BYTES = 64 * 1024;
const TRANSACTIONAL = 1 << 4;
/** Smaller ones go as they are: a call of zstd takes 20 us, as long as the broker and the socket take for so many bytes. */
const COMPRESSED_FROM_BYTES = 4_096;
/** Names of headers are few and come again with each record: their bytes are kept, but not without bound. */
const NAMES_KEPT = 1_000;
const names = new Map<string, Buffer>();
const NOTHING = Buffer.alloc(0);

export class RecordBatchEncoder {
  #buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  /** The batch as it is sent, where its records are compressed. */
  #packed = NOTHING;
  #end = HEADER_BYTES;
  #count = 0;
  #timestampMs = 0;

  /** Empties it. All records of a batch get this time, UTC ms. */
  begin(timestampMs: number): void {
    this.#end = HEADER_BYTES;
    this.#count = 0;
    this.#timestampMs = timestampMs;
  }

  get count(): number {
    return this.#count;
  }

  /** Bytes of the batch so far. */
  get size(): number {
    return this.#end;
  }

  /** Appends a record if the batch, before any compression, stays within `limitBytes` with it. Answers whether it did. */
  append(message: BusMessage, limitBytes: number): boolean {
    const start = this.#end;
    // The length stands before the record and is known after it: its place is held for the longest form, then closed up.
    let end = start + 5;
    this.#room(boundOf(message));
    this.#buffer[end] = 0; // Attributes: none are defined.
    this.#buffer[end + 1] = 0; // Time after the batch's first time.
    end = this.#varint(end + 2, this.#count);
    end = this.#content(end, message);
    const length = end - start - 5;
    const body = this.#varint(start, length);
    this.#buffer.copyWithin(body, start + 5, end);
    if (body + length > limitBytes) return false;
    this.#end = body + length;
    this.#count += 1;
    return true;
  }

  /**
   * The same for a record whose content (key, value, headers, as in a record) is there as bytes, in two parts. It is written
   * once for each trigger: no object is made here.
   */
  appendContent(first: Uint8Array, last: Uint8Array, limitBytes: number): boolean {
    const count = this.#count;
    const length = 2 + varintBytes(count) + first.length + last.length;
    let at = this.#end;
    const end = at + varintBytes(length) + length;
    if (end > limitBytes) return false;
    if (end > this.#buffer.length) this.#room(end - at);
    const buffer = this.#buffer;
    at = this.#varint(at, length);
    buffer[at] = 0; // Attributes: none are defined.
    buffer[at + 1] = 0; // Time after the batch's first time.
    at = this.#varint(at + 2, count);
    buffer.set(first, at);
    at += first.length;
    // A call costs more than some bytes do.
    if (last.length <= 16) for (let i = 0; i < last.length; i += 1) buffer[at + i] = last[i]!;
    else buffer.set(last, at);
    this.#end = end;
    this.#count = count + 1;
    return true;
  }

  /** Moves the records from the `from`th on into another batch, which must be empty. */
  moveTo(other: RecordBatchEncoder, from: number): void {
    other.#timestampMs = this.#timestampMs;
    let at = HEADER_BYTES;
    for (let i = 0; i < from; i += 1) at = this.#after(at);
    const cut = at;
    for (let i = from; i < this.#count; i += 1) {
      const end = this.#after(at);
      // Attributes and time take one byte each, then comes the offset.
      const content = at + varintBytes(this.#lengthAt(at)) + 2 + varintBytes(i);
      other.appendContent(this.#buffer.subarray(content, end), NOTHING, Number.MAX_SAFE_INTEGER);
      at = end;
    }
    this.#end = cut;
    this.#count = from;
  }

  /** Writes the header and answers the batch: its own bytes, not a copy, good until the next `begin` or `append`. */
  seal(identity: Identity, sequence: number, transactional: boolean, codec: Codec | null = null): Buffer {
    const attributes = transactional ? TRANSACTIONAL : 0;
    if (codec !== null && this.#end >= COMPRESSED_FROM_BYTES) {
      const records = codec.compress(this.#buffer.subarray(HEADER_BYTES, this.#end));
      const end = HEADER_BYTES + records.length;
      if (end < this.#end) {
        if (end > this.#packed.length) this.#packed = Buffer.allocUnsafeSlow(end * 2);
        this.#packed.set(records, HEADER_BYTES);
        return this.#header(this.#packed.subarray(0, end), identity, sequence, attributes | codec.attribute);
      }
    }
    return this.#header(this.#buffer.subarray(0, this.#end), identity, sequence, attributes);
  }

  #header(bytes: Buffer, identity: Identity, sequence: number, attributes: number): Buffer {
    bytes.writeBigInt64BE(0n, 0);
    bytes.writeInt32BE(bytes.length - 12, 8);
    bytes.writeInt32BE(-1, 12);
    bytes.writeInt8(2, 16);
    bytes.writeInt16BE(attributes, 21);
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

  /** All records get this time instead, UTC ms: that of sending. */
  set timestampMs(ms: number) {
    this.#timestampMs = ms;
  }

  /** Value of the length before the record at `at`. */
  #lengthAt(at: number): number {
    let zigzag = 0;
    for (let i = at, shift = 0; ; i += 1, shift += 7) {
      zigzag |= (this.#buffer[i]! & 0x7f) << shift;
      if (this.#buffer[i]! < 0x80) return zigzag >>> 1;
    }
  }

  /** Where the record at `at` ends. */
  #after(at: number): number {
    const length = this.#lengthAt(at);
    return at + varintBytes(length) + length;
  }

  /** Key, value and headers of a record. */
  #content(at: number, { key, value, headers }: BusMessage): number {
    const end = key === null ? this.#varint(at, -1) : this.#text(at, key);
    return this.#headers(this.#bytes(end, value), headers);
  }

  #headers(at: number, headers: BusMessage['headers']): number {
    if (headers === undefined) return this.#varint(at, 0);
    const all = Object.keys(headers);
    let end = this.#varint(at, all.length);
    for (const name of all) {
      end = this.#bytes(end, nameBytes(name));
      end = this.#text(end, headers[name]!);
    }
    return end;
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

function nameBytes(name: string): Buffer {
  let bytes = names.get(name);
  if (bytes === undefined) {
    bytes = Buffer.from(name);
    if (names.size < NAMES_KEPT) names.set(name, bytes);
  }
  return bytes;
}

/** Bytes of a signed varint that is not negative. */
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
