import { execFile } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { Kafka, logLevel } from 'kafkajs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DIST_FOLDERS } from '../../deploy/local/download.ts';
import { findJava } from '../../deploy/local/prerequisites.ts';
import type { BusMessage } from '../../src/ports/bus.ts';
import { type AnyBatch, anyBatch, CODECS, encoded } from '../unit/kafka/any-batch.ts';
import { brokers, openBus, unique } from './kafka-opening.ts';

const SOURCE = join(import.meta.dirname, 'java/ReadBatches.java');
const LIBRARIES = join('.servers/dist', DIST_FOLDERS.kafka, '*');
const MOST_OUTPUT = 512 * 1024 ** 2;

/** Lines that Java's reader prints. It is run from source, so it takes a JDK (openjdk-17-jdk-headless), not a JRE alone. */
async function java(...args: readonly string[]): Promise<string[]> {
  const found = findJava();
  if ('what' in found) throw new Error(`${found.what}: ${found.mend}`);
  const { stdout } = await promisify(execFile)(found.java, ['-Xmx512m', '-cp', LIBRARIES, SOURCE, ...args], {
    maxBuffer: MOST_OUTPUT,
  });
  return stdout.trimEnd().split('\n');
}

const hex = (bytes: Uint8Array | string | null): string =>
  bytes === null ? 'null' : `=${Buffer.from(bytes as string).toString('hex')}`;

function headersOf({ headers = {} }: BusMessage): string {
  const all = Object.entries(headers).map(([name, text]) => `${Buffer.from(name).toString('hex')}${hex(text)}`);
  return all.length === 0 ? 'none' : all.join(',');
}

const contentOf = (message: BusMessage): string => `${hex(message.key)} ${hex(message.value)} ${headersOf(message)}`;

/** Bytes of a batch at which its codec stands; small ones are not compressed. */
const codecIn = (bytes: Buffer): string => ['none', '', '', 'lz4', 'zstd'][bytes.readInt16BE(21) & 7]!;

/** A sequence goes on at 0 after 2^31 - 1. */
const sequenceOf = (first: number, i: number): number => (first + i) % 2 ** 31;

function expected(batch: AnyBatch, bytes: Buffer): string[] {
  const { messages, identity, sequence, transactional, timestampMs } = batch;
  const last = messages.length - 1;
  const head = `batch 0 ${last} ${identity.producerId} ${identity.epoch} ${sequence} ${transactional}`;
  return [
    `${head} ${codecIn(bytes)} CreateTime ${timestampMs}`,
    ...messages.map((one, i) => `record ${i} ${sequenceOf(sequence, i)} ${timestampMs} ${contentOf(one)}`),
  ];
}

/** As many triggers as a busy partition gets at once. */
function large(codec: string): AnyBatch {
  const messages = Array.from({ length: 3_000 }, (_, i) => ({
    partition: 0,
    key: `team/job-${i}`,
    value: Buffer.from(`{"order":${i}}`),
    headers: { ce_id: `17-${i}-1790000000000`, ce_type: 'carillon.trigger.v1', 'content-type': 'application/json' },
  }));
  const identity = { producerId: 2n ** 40n, epoch: 7 };
  return { messages, timestampMs: 1.79e12, identity, sequence: 2 ** 31 - 1_000, transactional: true, codec };
}

describe.skipIf(brokers === null)("Java's reader", { timeout: 180_000 }, () => {
  const folder = join('.servers', unique('java'));
  beforeAll(() => mkdirSync(folder, { recursive: true }));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('finds in batches, field by field, what the encoder was given', async () => {
    const random = fc.sample(anyBatch, { seed: 1, numRuns: 400 });
    // Values that fill a batch, and an empty one between others.
    const sizes = [0, 1, 63, 64, 8_191, 8_192, 900_000].map((size) => ({
      partition: 0,
      key: `k${size}`,
      value: Uint8Array.from({ length: size }, (_, i) => (i * i) % 251),
    }));
    const batches = Object.keys(CODECS).flatMap((codec) => [large(codec), { ...large(codec), messages: sizes }]);
    const all = [...random, ...batches].map((batch) => ({ batch, bytes: encoded(batch) }));
    for (const codec of Object.keys(CODECS)) {
      expect(all.filter(({ bytes }) => codecIn(bytes) === codec).length, codec).toBeGreaterThan(20);
    }
    const file = join(folder, 'batches');
    writeFileSync(file, Buffer.concat(all.map(({ bytes }) => bytes)));
    const lines = await java('bytes', file);
    expect(lines).toEqual(all.flatMap(({ batch, bytes }) => expected(batch, bytes)));
  });

  test('refuses a batch of which one byte is another', async () => {
    const bytes = encoded(large('none'));
    bytes[bytes.length - 5]! ^= 1;
    const file = join(folder, 'broken');
    writeFileSync(file, bytes);
    await expect(java('bytes', file)).rejects.toThrow('Record is corrupt');
  });

  test.each([
    ['none', 'CreateTime'],
    ['zstd', 'LogAppendTime'],
    ['lz4', 'LogAppendTime'],
  ])(
    'gets from a topic with %s and %s what producer and lane have sent, and nothing of an aborted commit',
    async (codec, time) => {
      const topic = unique('java');
      const admin = new Kafka({ brokers: [...brokers!], logLevel: logLevel.NOTHING }).admin();
      await admin.connect();
      const settings = {
        'compression.type': codec === 'none' ? 'producer' : codec,
        'message.timestamp.type': time,
        'max.message.bytes': '500000',
      };
      const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
      await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries }], waitForLeaders: true });
      await admin.disconnect();
      const bus = openBus();
      const [producer, lane] = [await bus.producer(), await bus.lane(unique('lane'))];
      // The first send makes the settings of the topic known.
      expect(await producer.send([{ topic, messages: [{ partition: 0, key: 'first', value: null }] }])).toEqual([]);
      const sent = large(codec).messages.map((one, i) => ({ ...one, partition: i % 2 }));
      expect(await producer.send([{ topic, messages: sent }])).toEqual([]);
      await lane.commit([{ topic, messages: sent }]);
      const tooLarge = { partition: 1, key: 'large', value: new Uint8Array(600_000) };
      await expect(lane.commit([{ topic, messages: [...sent, tooLarge] }])).rejects.toMatchObject({
        code: 'record-too-large',
      });
      await lane.commit([{ topic, messages: sent.slice(0, 10) }]);
      await producer.close();
      const lines = (await java('topic', brokers![0]!, topic, '2')).map((line) => line.split(' '));
      const all = [{ partition: 0, key: 'first', value: null }, ...sent, ...sent, ...sent.slice(0, 10)];
      for (const partition of [0, 1]) {
        const read = lines.filter(([, own]) => Number(own) === partition).map((parts) => parts.slice(4).join(' '));
        expect(read).toEqual(all.filter((one) => one.partition === partition).map(contentOf));
      }
      const times = lines.map(([, , , at]) => Number(at));
      expect(Math.max(...times) - Math.min(...times)).toBeLessThan(60_000);
    },
  );
});
