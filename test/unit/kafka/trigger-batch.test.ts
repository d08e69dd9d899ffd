import { jsCRC32C, Reader, readRecordsBatch } from '@platformatic/kafka';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Buffers, PartitionQueue } from '../../../src/adapters/kafka/partition-queue.ts';
import { EncodedTriggers } from '../../../src/adapters/kafka/trigger-batch.ts';
import { triggerHead, triggerMessage } from '../../../src/core/envelope.ts';
import { executionId } from '../../../src/core/job.ts';

const IDENTITY = { producerId: 7n, epoch: 3 };

interface Given {
  key: string;
  payload: string;
  compact: boolean;
  shard: number;
  number: number;
  nominalMs: number;
  offsetMs: number;
}

/** Times of 13 digits, and the few that take the slow way. */
const nominal = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 1_000_000_000_000, max: 2_000_000_000_000 }) },
  fc.constantFrom(0, 999_999_999_999, 1_000_000_000_000, 9_999_999_999_999, 10_000_000_000_000),
);
const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 80 });
const triggers: fc.Arbitrary<Given[]> = fc.array(
  fc.record({
    key: text,
    payload: fc.string({ unit: 'grapheme', maxLength: 300 }),
    compact: fc.boolean(),
    shard: fc.nat(100_000),
    number: fc.nat(2 ** 31 - 1),
    nominalMs: nominal,
    offsetMs: fc.nat(3),
  }),
  { minLength: 1, maxLength: 60 },
);

function queues(): Map<string, PartitionQueue> {
  return new Map();
}

function begin(all: Map<string, PartitionQueue>): EncodedTriggers {
  const buffers = new Buffers();
  return new EncodedTriggers((topic, partition) => {
    const key = `${topic}/${partition}`;
    const queue = all.get(key) ?? new PartitionQueue(topic, partition, IDENTITY, buffers);
    all.set(key, queue);
    return queue;
  });
}

interface Shown {
  key: string | null;
  value: string | null;
  headers: Record<string, string>;
}

/** What another decoder reads in a batch, with its CRC and its offsets checked. */
function decoded(bytes: Buffer): Shown[] {
  const batch = readRecordsBatch(Reader.from(bytes));
  expect(batch.crc).toBe(jsCRC32C(bytes.subarray(21)));
  expect(batch.length).toBe(bytes.length - 12);
  expect(batch.records.map(({ offsetDelta }) => offsetDelta)).toEqual(batch.records.map((_, i) => i));
  return batch.records.map(({ key, value, headers }) => ({
    key: key?.toString() ?? null,
    value: value?.toString() ?? null,
    headers: Object.fromEntries(headers.map(([name, one]) => [name!.toString(), one!.toString()])),
  }));
}

test('triggers as bytes say what their messages say, in order, by another decoder', () => {
  fc.assert(
    fc.property(triggers, fc.integer({ min: 1, max: 5 }), (given, partitions) => {
      const all = queues();
      const batch = begin(all);
      const expected = new Map<number, Shown[]>();
      const heads = given.map(({ compact, ...record }) => {
        const cluster = { name: 'c', partitions, envelope: compact ? ('compact' as const) : ('cloudevents' as const) };
        return triggerHead(cluster, { version: 1, contentType: 'application/json', ...record }, 5);
      });
      // Each head twice, so that what is kept of it is used.
      for (const again of [0, 1_000]) {
        for (const [i, { shard, number, nominalMs, offsetMs }] of given.entries()) {
          const at = nominalMs + again;
          batch.add('t', heads[i]!, shard, number, at, at + offsetMs);
          const { partition, key, value, headers } = triggerMessage(
            heads[i]!,
            executionId(shard, number, at),
            at,
            at + offsetMs,
          );
          const shown = { key, value: Buffer.from(value).toString(), headers };
          expected.set(partition, [...(expected.get(partition) ?? []), shown]);
        }
      }
      expect(batch.count).toBe(2 * given.length);
      for (const [partition, shown] of expected) {
        expect(decoded(all.get(`t/${partition}`)!.next(false, IDENTITY).bytes)).toEqual(shown);
      }
    }),
    { seed: 7, numRuns: 300 },
  );
});

test('a batch that is too large is parted where its records end: all go out once, in order, and only the large one fails', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 40 }),
      fc.nat(),
      async (sizes, pick) => {
        const all = queues();
        const large = pick % sizes.length;
        const [first, second] = [begin(all), begin(all)];
        const cluster = { name: 'c', partitions: 1, envelope: 'compact' as const };
        const heads = sizes.map((size, i) =>
          triggerHead(
            cluster,
            { key: `k${i}`, version: 1, contentType: 'a/b', payload: 'x'.repeat(i === large ? 2_000 : size) },
            1,
          ),
        );
        // Two calls share the batch; the large one is in the second.
        for (const [i, head] of heads.entries()) if (i !== large) first.add('t', head, 1, i, 1.7e12, 1.7e12);
        for (const [i, head] of heads.entries()) second.add('t', head, 1, i, 1.8e12, 1.8e12);
        const answers = Promise.all([first.delivery.answer(first.count), second.delivery.answer(second.count)]);
        const queue = all.get('t/0')!;
        const seen: string[] = [];
        while (!queue.idle) {
          const { bytes } = queue.next(false, IDENTITY);
          if (bytes.length > 1_000) {
            queue.halve();
            continue;
          }
          seen.push(...decoded(bytes).map(({ key }) => key!));
          queue.acknowledged();
        }
        const keys = heads.map(({ key }) => key).filter((_, i) => i !== large);
        expect(seen).toEqual([...keys, ...keys]);
        const failure = { topic: 't', partition: 0, code: 'record-too-large', places: [large] };
        expect(await answers).toEqual([[], [failure]]);
      },
    ),
    { seed: 11, numRuns: 200 },
  );
});
