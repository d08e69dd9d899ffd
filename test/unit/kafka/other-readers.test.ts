import { createRequire } from 'node:module';
import { jsCRC32C } from '@platformatic/kafka';
import fc from 'fast-check';
import kafkajs from 'kafkajs';
import { describe, expect, test } from 'vitest';
import { BatchReader, type LogSink } from '../../../bench/reader/record-batches.ts';
import { Buffers, PartitionQueue } from '../../../src/adapters/kafka/partition-queue.ts';
import { EncodedTriggers } from '../../../src/adapters/kafka/trigger-batch.ts';
import { triggerHead } from '../../../src/core/envelope.ts';
import { registerCodecs } from '../../../src/sdk/kafka-codecs.ts';
import { anyBatch, CODECS, encoded } from './any-batch.ts';

interface KafkajsBatch {
  firstOffset: string;
  lastOffsetDelta: number;
  producerId: string;
  producerEpoch: number;
  firstSequence: number;
  inTransaction: boolean;
  records: {
    offset: string;
    timestamp: string;
    key: Buffer | null;
    value: Buffer | null;
    headers: Record<string, Buffer>;
  }[];
}

/** kafkajs shows its decoder to nobody, so it is taken from inside. */
const require = createRequire(import.meta.url);
const KafkajsDecoder = require('kafkajs/src/protocol/decoder') as new (bytes: Buffer) => unknown;
const kafkajsBatch = require('kafkajs/src/protocol/recordBatch/v0/decoder') as (from: unknown) => Promise<KafkajsBatch>;
registerCodecs(kafkajs);

const byKafkajs = (bytes: Buffer): Promise<KafkajsBatch> => kafkajsBatch(new KafkajsDecoder(bytes));

/** What the reader of the benchmarks says of bytes: `JOB@NOMINALMS`. */
function byBenchReader(bytes: Buffer): { triggers: string[]; foreign: number; next: number } {
  const seen = { triggers: [] as string[], foreign: 0 };
  const sink: LogSink = {
    trigger: (job, nominalMs) => seen.triggers.push(`${job}@${nominalMs}`),
    foreign: () => {
      seen.foreign += 1;
    },
    ended: () => {},
  };
  const next = new BatchReader(sink).read(0, bytes, 0);
  return { ...seen, next };
}

interface AnyTrigger {
  job: number;
  nominalMs: number;
  payload: string;
}
const anyTriggers: fc.Arbitrary<AnyTrigger[]> = fc.array(
  fc.record({
    job: fc.nat(10 ** 9),
    nominalMs: fc.integer({ min: 1e12, max: 2e12 }),
    payload: fc.string({ unit: 'grapheme', maxLength: 200 }),
  }),
  { minLength: 1, maxLength: 120 },
);
const anyEnvelope = fc.constantFrom('compact' as const, 'cloudevents' as const);
const anyCodec = fc.constantFrom(...Object.keys(CODECS));

function triggerBytes(given: readonly AnyTrigger[], envelope: 'compact' | 'cloudevents', codec: string): Buffer {
  const settings = { maxBytes: Number.POSITIVE_INFINITY, codec: CODECS[codec]! };
  const queue = new PartitionQueue('t', 0, { producerId: 7n, epoch: 3 }, new Buffers(), settings);
  const triggers = new EncodedTriggers(() => queue);
  for (const { job, nominalMs, payload } of given) {
    const record = { key: `job-${job}`, version: 1, contentType: 'text/plain', payload };
    triggers.add('t', triggerHead({ name: 'c', partitions: 1, envelope }, record, 1), 3, job, nominalMs, nominalMs);
  }
  return Buffer.from(queue.next(true, { producerId: 7n, epoch: 3 }).bytes);
}

function withChecksum(bytes: Buffer): Buffer {
  bytes.writeInt32BE(bytes.length - 12, 8);
  bytes.writeUInt32BE(jsCRC32C(bytes.subarray(21)), 17);
  return bytes;
}

describe('readers that share no code with the encoder', () => {
  test('kafkajs decodes any batch of any codec to what was given', async () => {
    let compressed = 0;
    await fc.assert(
      fc.asyncProperty(anyBatch, async (given) => {
        // kafkajs takes a header for a repeated one if a plain object has a member of that name.
        fc.pre(given.messages.every(({ headers = {} }) => Object.keys(headers).every((name) => !(name in {}))));
        const bytes = encoded(given);
        if ((bytes.readInt16BE(21) & 7) !== 0) compressed += 1;
        const { records, ...head } = await byKafkajs(bytes);
        expect(head).toMatchObject({
          firstOffset: '0',
          lastOffsetDelta: given.messages.length - 1,
          producerId: String(given.identity.producerId),
          producerEpoch: given.identity.epoch,
          firstSequence: given.sequence,
          inTransaction: given.transactional,
        });
        const read = records.map(({ offset, timestamp, key, value, headers }) => ({
          offset,
          timestamp,
          key: key?.toString() ?? null,
          value: value === null ? null : Uint8Array.from(value),
          headers: Object.entries(headers).map(([name, text]) => [name, text.toString()]),
        }));
        const wanted = given.messages.map(({ key, value, headers = {} }, i) => ({
          offset: `${i}`,
          timestamp: `${given.timestampMs}`,
          key,
          value,
          headers: Object.entries(headers),
        }));
        expect(read).toEqual(wanted);
      }),
    );
    expect(compressed).toBeGreaterThan(10);
  });

  test('the reader of the benchmarks finds job and time of every trigger, in order', () => {
    fc.assert(
      fc.property(anyTriggers, anyEnvelope, anyCodec, (given, envelope, codec) => {
        expect(byBenchReader(triggerBytes(given, envelope, codec))).toEqual({
          triggers: given.map(({ job, nominalMs }) => `${job}@${nominalMs}`),
          foreign: 0,
          next: given.length,
        });
      }),
    );
  });

  test('it leaves a batch that is cut short for the next answer, and refuses one of which a byte is another', () => {
    fc.assert(
      fc.property(anyTriggers, anyEnvelope, anyCodec, fc.nat(), fc.integer({ min: 1, max: 255 }), (...drawn) => {
        const [given, envelope, codec, pick, other] = drawn;
        const bytes = triggerBytes(given, envelope, codec);
        const cut = bytes.subarray(0, pick % bytes.length);
        expect(byBenchReader(cut)).toEqual({ triggers: [], foreign: 0, next: 0 });
        // What follows the checksum is what it is of.
        const at = 21 + (pick % (bytes.length - 21));
        bytes[at]! ^= other;
        expect(() => byBenchReader(bytes)).toThrow('checksum');
      }),
    );
  });

  test('it ends with a definite error, or with records, where bytes were cut or changed and the checksum is right', () => {
    let refused = 0;
    fc.assert(
      fc.property(anyTriggers, anyEnvelope, anyCodec, fc.nat(), fc.integer({ min: 1, max: 255 }), (...drawn) => {
        const [given, envelope, codec, pick, other] = drawn;
        const bytes = triggerBytes(given, envelope, codec);
        const cut = withChecksum(Buffer.from(bytes.subarray(0, 61 + (pick % (bytes.length - 61)))));
        bytes[21 + (pick % (bytes.length - 21))]! ^= other;
        for (const damaged of [cut, withChecksum(bytes)]) {
          try {
            expect(byBenchReader(damaged).triggers.length).toBeLessThanOrEqual(given.length);
          } catch (error) {
            expect(error).toBeInstanceOf(Error);
            refused += 1;
          }
        }
      }),
      { numRuns: 500 },
    );
    expect(refused).toBeGreaterThan(400);
  });
});
