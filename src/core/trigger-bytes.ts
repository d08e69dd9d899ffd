/**
 * The content of a trigger's record (key, value, headers) as bytes, in the form that it has in Kafka's message format 2
 * (https://kafka.apache.org/documentation/#record): a length as a signed varint before each part. A bus that keeps records as
 * bytes writes a trigger as two copies: what is constant in the job, and what its time makes.
 */
import { COMPACT_ID, type TriggerHead } from './envelope.ts';

/** Nominal times of 13 digits: 2001-09-09 to 2286-11-20. Others are to be written as messages. */
const DIGITS = 13;
const FIRST_MS = 1e12;
const END_MS = 1e13;

export function hasTriggerBytes(nominalMs: number): boolean {
  return nominalMs >= FIRST_MS && nominalMs < END_MS;
}

/** What is constant in the triggers of one head; the head keeps it. */
class Kept {
  readonly shard: number;
  readonly number: number;
  /** Key, value, constant headers, and the execution id up to its time. */
  readonly bytes: Uint8Array;

  constructor(head: TriggerHead, shard: number, number: number) {
    this.shard = shard;
    this.number = number;
    this.bytes = constantBytes(head, shard, number);
  }
}

/**
 * Makes what is constant ahead of its time, in the scan, and cheaply: a job that fires once a minute has it made for each
 * time. (m, cluster demo: the 10,000 triggers of a full minute went out in 155 ms where they were made when it was due.)
 */
export function prepareHead(head: TriggerHead, shard: number, number: number): void {
  head.kept = new Kept(head, shard, number);
}

/** The first part of a trigger's content. */
export function headBytes(head: TriggerHead, shard: number, number: number): Uint8Array {
  let kept = head.kept as Kept | null;
  if (kept === null || kept.number !== number || kept.shard !== shard) {
    kept = new Kept(head, shard, number);
    head.kept = kept;
  }
  return kept.bytes;
}

/**
 * The second part: what the time makes, the digits of the execution id's time, and in a CloudEvent two headers. The triggers of
 * one tick share it. The execution id's header therefore comes last but for these; headers have no order. Good until the next
 * call.
 */
export function endBytes(head: TriggerHead, nominalMs: number, effectiveMs: number): Uint8Array {
  const ending = endings[nominalMs & (ENDINGS - 1)]!;
  if (!ending.is(nominalMs, effectiveMs)) ending.set(nominalMs, effectiveMs);
  return head.headers === null ? ending.digits : ending.event;
}

class Ending {
  private nominalMs = -1;
  private effectiveMs = -1;
  readonly digits = Buffer.alloc(DIGITS);
  private made: Buffer | null = null;

  is(nominalMs: number, effectiveMs: number): boolean {
    return this.nominalMs === nominalMs && this.effectiveMs === effectiveMs;
  }

  set(nominalMs: number, effectiveMs: number): void {
    this.nominalMs = nominalMs;
    this.effectiveMs = effectiveMs;
    this.digits.write(String(nominalMs), 'latin1');
    this.made = null;
  }

  get event(): Uint8Array {
    this.made ??= this.make();
    return this.made;
  }

  private make(): Buffer {
    end = 0;
    scratch.set(this.digits, end);
    end += DIGITS;
    putText('ce_time');
    putText(new Date(this.nominalMs).toISOString());
    putText('ce_effectivetime');
    putText(new Date(this.effectiveMs).toISOString());
    return Buffer.from(scratch.subarray(0, end));
  }
}

/**
 * Endings of the last times, by the low bits of the time. A wheel that is behind takes several occurrences of a job at once, and
 * jobs in the order of their acknowledgements: then each trigger has another time than the one before. (m, 1,000,000/s, 5 s
 * behind: with one ending, these bytes took 55 % of the wheel's CPU, and it never caught up.)
 */
const ENDINGS = 4_096;
const endings = Array.from({ length: ENDINGS }, () => new Ending());

/** They are written here first, since their length is known afterwards. */
let scratch = Buffer.allocUnsafeSlow(64 * 1024);
let end = 0;

function constantBytes(head: TriggerHead, shard: number, number: number): Uint8Array {
  const { key, value, headers } = head;
  end = 0;
  putText(key);
  room(value.length + 5);
  putLength(value.length);
  scratch.set(value, end);
  end += value.length;
  let own = 1;
  if (headers !== null) for (const _ in headers) own += 1;
  putLength(headers === null ? 1 : own + 2);
  if (headers !== null) {
    for (const name in headers) {
      putText(name);
      putText(headers[name]!);
    }
  }
  putText(headers === null ? COMPACT_ID : 'ce_id');
  const id = `${shard}-${number}-`;
  room(id.length + 5);
  putLength(id.length + DIGITS);
  end += scratch.write(id, end, 'latin1');
  return Buffer.from(scratch.subarray(0, end));
}

/** Of up to 21 UTF-16 units are at most 63 bytes of UTF-8, whose length is one byte. */
const SHORT_TEXT = 21;

/** Text as UTF-8, its length before it. */
function putText(text: string): void {
  room(text.length * 3 + 5);
  if (text.length <= SHORT_TEXT) {
    const length = scratch.write(text, end + 1);
    scratch[end] = length << 1;
    end += length + 1;
    return;
  }
  putLength(Buffer.byteLength(text));
  end += scratch.write(text, end);
}

/** A length as a signed varint. */
function putLength(length: number): void {
  let rest = length << 1;
  for (; rest > 0x7f; rest >>>= 7) scratch[end++] = (rest & 0x7f) | 0x80;
  scratch[end++] = rest;
}

function room(bytes: number): void {
  if (end + bytes <= scratch.length) return;
  const larger = Buffer.allocUnsafeSlow(Math.max(end + bytes, scratch.length * 2));
  scratch.copy(larger, 0, 0, end);
  scratch = larger;
}
