import { jsCRC32C, Reader, readRecordsBatch } from '@platformatic/kafka';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RecordBatchEncoder } from '../../../src/adapters/kafka/record-batch.ts';
import type { BusMessage } from '../../../src/ports/bus.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 300 });
const messages = fc.array(
  fc.record({
    partition: fc.constant(0),
    key: fc.option(text),
    value: fc.option(fc.uint8Array({ maxLength: 400 })),
    headers: fc.dictionary(text, text, { maxKeys: 12, noNullPrototype: true }),
  }),
  { minLength: 1, maxLength: 40 },
);

function encode(encoder: RecordBatchEncoder, all: readonly BusMessage[]): Buffer {
  encoder.begin(1_790_000_000_123);
  for (const message of all) expect(encoder.append(message, Number.MAX_SAFE_INTEGER)).toBe(true);
  return Buffer.from(encoder.seal({ producerId: 2n ** 40n, epoch: 7 }, 1_234, true));
}

test('another decoder reads back what the encoder wrote', () => {
  const encoder = new RecordBatchEncoder();
  fc.assert(
    fc.property(messages, (all) => {
      const bytes = encode(encoder, all);
      const batch = readRecordsBatch(Reader.from(bytes));
      expect(batch).toMatchObject({
        firstOffset: 0n,
        length: bytes.length - 12,
        magic: 2,
        crc: jsCRC32C(bytes.subarray(21)),
        attributes: 16,
        lastOffsetDelta: all.length - 1,
        firstTimestamp: 1_790_000_000_123n,
        maxTimestamp: 1_790_000_000_123n,
        producerId: 2n ** 40n,
        producerEpoch: 7,
        firstSequence: 1_234,
      });
      const read = batch.records.map(({ offsetDelta, key, value, headers }) => ({
        offsetDelta,
        key: key?.toString() ?? null,
        value: value === null ? null : Uint8Array.from(value),
        headers: Object.fromEntries(headers.map(([name, one]) => [name!.toString(), one!.toString()])),
      }));
      expect(read).toEqual(
        all.map(({ key, value, headers }, offsetDelta) => ({ offsetDelta, key, value, headers: headers ?? {} })),
      );
    }),
    { seed: 42 },
  );
});

test('lengths on both sides of each size of their prefix', () => {
  const encoder = new RecordBatchEncoder();
  // A signed prefix takes one byte more from 64, 8,192 and 1,048,576 on; text of two bytes per unit takes it sooner.
  const sizes = [31, 32, 63, 64, 4_095, 4_096, 8_191, 8_192, 524_287, 524_288, 1_048_575, 1_048_576];
  const all = sizes.flatMap((size) => [
    { partition: 0, key: 'a'.repeat(size), value: new Uint8Array(size).fill(size % 251) },
    { partition: 0, key: 'é'.repeat(size), value: null },
  ]);
  const { records } = readRecordsBatch(Reader.from(encode(encoder, all)));
  expect(records.map(({ key }) => key!.toString())).toEqual(all.map(({ key }) => key));
  records.forEach(({ value }, i) => {
    expect(value === null ? null : Buffer.compare(value, all[i]!.value!)).toBe(all[i]!.value === null ? null : 0);
  });
});

test('a batch stays within its limit, even with its first record', () => {
  const encoder = new RecordBatchEncoder();
  const message = { partition: 0, key: 'k', value: new Uint8Array(1_000) };
  encoder.begin(0);
  let taken = 0;
  while (encoder.append(message, 10_000)) taken += 1;
  expect(taken).toBe(9);
  const bytes = encoder.seal({ producerId: 1n, epoch: 0 }, 0, false);
  expect(bytes.length).toBeLessThanOrEqual(10_000);
  expect(readRecordsBatch(Reader.from(bytes)).records).toHaveLength(9);
  encoder.begin(0);
  expect(encoder.append({ ...message, value: new Uint8Array(20_000) }, 10_000)).toBe(false);
  expect(encoder.count).toBe(0);
});
