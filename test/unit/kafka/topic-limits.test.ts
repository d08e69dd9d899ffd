import { Reader, readRecordsBatch } from '@platformatic/kafka';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Buffers, PartitionQueue } from '../../../src/adapters/kafka/partition-queue.ts';
import { EncodedTriggers } from '../../../src/adapters/kafka/trigger-batch.ts';
import { triggerHead } from '../../../src/core/envelope.ts';

const IDENTITY = { producerId: 7n, epoch: 3 };
const MAX_BYTES = 3_000;

test('batches stay within what their topic takes; what is larger alone is refused, named, and never sent, the others go in order', async () => {
  const sizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 400 }), fc.integer({ min: 2_700, max: 3_200 })), {
    minLength: 1,
    maxLength: 60,
  });
  await fc.assert(
    fc.asyncProperty(sizes, fc.boolean(), async (given, asMessages) => {
      const settings = { maxBytes: MAX_BYTES, codec: null };
      const queue = new PartitionQueue('t', 0, IDENTITY, new Buffers(), settings);
      const triggers = new EncodedTriggers(() => queue);
      for (const [i, size] of given.entries()) {
        const [key, payload] = [`k${i}`, 'x'.repeat(size)];
        if (asMessages) {
          triggers.message('t', { partition: 0, key, value: Buffer.from(payload) });
        } else {
          const record = { key, version: 1, contentType: 'a/b', payload };
          triggers.add(
            't',
            triggerHead({ name: 'c', partitions: 1, envelope: 'compact' }, record, 1),
            1,
            i,
            1.7e12,
            1.7e12,
          );
        }
      }
      // What is refused is known before anything is sent.
      const refused = triggers.delivery.failures.flatMap(({ places }) => places!);
      const answer = triggers.delivery.answer(triggers.count);
      const sent: string[] = [];
      const alone: number[] = [];
      while (!queue.idle) {
        const { bytes } = queue.next(false, IDENTITY);
        expect(bytes.length).toBeLessThanOrEqual(MAX_BYTES);
        const keys = readRecordsBatch(Reader.from(bytes)).records.map(({ key }) => key!.toString());
        if (keys.length === 1) alone.push(bytes.length);
        sent.push(...keys);
        queue.acknowledged();
      }
      expect(sent).toEqual(given.map((_, i) => `k${i}`).filter((_, i) => !refused.includes(i)));
      // A batch of one record is its payload, its head of 61 bytes, and less than 100 around the payload.
      for (const [i, size] of given.entries()) {
        if (size + 61 > MAX_BYTES) expect(refused).toContain(i);
        if (size + 61 + 100 <= MAX_BYTES) expect(refused).not.toContain(i);
      }
      expect((await answer).flatMap(({ places }) => places!)).toEqual(refused);
    }),
  );
});
