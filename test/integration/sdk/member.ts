/**
 * A consumer in a process of its own, to be killed: it handles one trigger after another and, from the third on, never
 * ends. Arguments: brokers, Redis URL, topic, group. Prints `handled` per trigger and `hangs` when it does not end.
 */
import { Redis } from 'ioredis';
import { redisDeduplicator } from '../../../src/sdk/deduplicator.ts';
import { consumeKafka } from '../../../src/sdk/kafka-consumer.ts';
import { recordEffect } from './effects.ts';

const [brokers, redisUrl, topic, group] = process.argv.slice(2) as [string, string, string, string];
const redis = new Redis(redisUrl);
let handled = 0;
await consumeKafka({
  kafka: { brokers: brokers.split(',') },
  group,
  concurrency: 1,
  deduplicator: redisDeduplicator(redis, { leaseMs: 1_500, prefix: `${group}:` }),
  sessionTimeoutMs: 6_000,
  topics: {
    [topic]: async (trigger) => {
      handled += 1;
      if (handled === 3) {
        process.stdout.write('hangs\n');
        await new Promise(() => {});
      }
      await recordEffect(redis, group, trigger);
      process.stdout.write('handled\n');
    },
  },
});
