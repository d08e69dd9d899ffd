import { jsCRC32C } from '@platformatic/kafka';

/** Record batches written by hand from the format's description (https://kafka.apache.org/documentation/#recordbatch). */
export interface HandRecord {
  key: string | null;
  headers: Record<string, string>;
  value?: string;
}

export interface HandBatch {
  base: number;
  records: HandRecord[];
  atMs: number;
  producer?: number;
  transactional?: boolean;
  /** Time of the producer instead of the broker. */
  producerTime?: boolean;
  codec?: number;
  compress?: (bytes: Buffer) => Buffer;
}

export function varint(value: number): Buffer {
  let rest = (BigInt(value) << 1n) ^ (BigInt(value) >> 63n);
  const out: number[] = [];
  while (rest > 127n) {
    out.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  out.push(Number(rest));
  return Buffer.from(out);
}

function withLength(bytes: Buffer | null): Buffer {
  return bytes === null ? varint(-1) : Buffer.concat([varint(bytes.length), bytes]);
}

function record({ key, headers, value = 'payload' }: HandRecord, delta: number): Buffer {
  const names = Object.entries(headers);
  const body = Buffer.concat([
    Buffer.from([0]),
    varint(delta * 7),
    varint(delta),
    withLength(key === null ? null : Buffer.from(key)),
    withLength(Buffer.from(value)),
    varint(names.length),
    ...names.flatMap(([name, text]) => [withLength(Buffer.from(name)), withLength(Buffer.from(text))]),
  ]);
  return withLength(body);
}

function framed(
  base: number,
  count: number,
  attributes: number,
  atMs: number,
  producer: number,
  records: Buffer,
): Buffer {
  const head = Buffer.alloc(61);
  head.writeBigInt64BE(BigInt(base), 0);
  head.writeInt32BE(61 - 12 + records.length, 8);
  head[16] = 2;
  head.writeInt16BE(attributes, 21);
  head.writeInt32BE(count - 1, 23);
  head.writeBigInt64BE(BigInt(atMs - 5), 27);
  head.writeBigInt64BE(BigInt(atMs), 35);
  head.writeBigInt64BE(BigInt(producer), 43);
  head.writeInt32BE(count, 57);
  const all = Buffer.concat([head, records]);
  all.writeUInt32BE(jsCRC32C(all.subarray(21)), 17);
  return all;
}

export function batch({ base, records, atMs, codec = 0, compress = (bytes) => bytes, ...more }: HandBatch): Buffer {
  const attributes = codec | (more.producerTime ? 0 : 8) | (more.transactional ? 16 : 0);
  const bytes = compress(Buffer.concat(records.map(record)));
  return framed(base, records.length, attributes, atMs, more.producer ?? -1, bytes);
}

/** A mark that ends a transaction: a control batch whose key is version 0 and type 1 (commit) or 0 (abort). */
export function mark(base: number, producer: number, committed: boolean, atMs: number): Buffer {
  const key = Buffer.from([0, 0, 0, committed ? 1 : 0]);
  const body = Buffer.concat([Buffer.from([0, 0, 0]), withLength(key), withLength(Buffer.alloc(6)), varint(0)]);
  return framed(base, 1, 16 | 32, atMs, producer, withLength(body));
}

export const compact = (job: number, nominalMs: number): HandRecord => ({
  key: `job-${String(job).padStart(8, '0')}`,
  headers: { id: `3-${job + 1}-${nominalMs}` },
});

export const cloudEvent = (job: number, nominalMs: number): HandRecord => ({
  key: `job-${job}`,
  headers: {
    ce_specversion: '1.0',
    ce_type: 'x',
    ce_id: `3-${job + 1}-${nominalMs}`,
    ce_time: 'later',
    ce_epoch: '42',
  },
});
