import { Kafka, logLevel } from 'kafkajs';
import { describe, expect, test } from 'vitest';
import { triggerHead } from '../../src/core/envelope.ts';
import { consumeKafka } from '../../src/sdk/kafka-consumer.ts';
import { brokers, closing, committed, openBus, unique } from './kafka-opening.ts';

const JOBS = 500;
const NOMINAL_MS = Date.UTC(2026, 11, 1);

async function madeTopic(configs: Readonly<Record<string, string>>): Promise<string> {
  const topic = unique('compressed');
  const admin = new Kafka({ brokers: [...brokers!], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
  await admin.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }], waitForLeaders: true });
  await admin.disconnect();
  return topic;
}

describe.skipIf(brokers === null)('topics that ask for compression', () => {
  test.each(['zstd', 'lz4'])('%s: our consumer for services and the engine read every trigger', async (codec) => {
    const topic = await madeTopic({ 'compression.type': codec });
    const bus = openBus();
    const lane = await bus.lane(unique('lane'));
    const commit = async (jobs: number): Promise<void> => {
      const batch = lane.triggers!();
      for (let number = 0; number < jobs; number += 1) {
        const record = {
          key: `job-${number}`,
          version: 1,
          payload: `{"n":${number}}`,
          contentType: 'application/json',
        };
        const head = triggerHead({ name: 'c', partitions: 1, envelope: 'cloudevents' }, record, 1);
        batch.add(topic, head, 1, number, NOMINAL_MS, NOMINAL_MS);
      }
      await lane.commit(batch.toMessages());
    };
    // The first commit makes the settings of the topic known.
    await commit(1);
    await commit(JOBS - 1);
    const all = Array.from({ length: JOBS - 1 }, (_, number) => `job-${number} {"n":${number}}`);
    const wanted = [all[0]!, ...all];
    const read = await committed(bus, topic);
    expect(read.map(({ key, value }) => `${key} ${Buffer.from(value!)}`)).toEqual(wanted);

    const seen: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const running = await consumeKafka({
      group: unique('service'),
      kafka: { brokers: [...brokers!], logLevel: logLevel.NOTHING },
      topics: {
        [topic]: async (trigger) => {
          seen.push(`${trigger.key} ${trigger.text()}`);
          if (seen.length === JOBS) resolve();
        },
      },
    });
    closing({ close: () => running.stop() });
    await promise;
    expect(seen.sort()).toEqual(wanted.sort());
  });

  test('a topic that leaves it to its producers gets none: kafkajs without codecs of its own could not read it', async () => {
    const topic = await madeTopic({});
    const bus = openBus();
    const producer = await bus.producer();
    const value = Buffer.from('x'.repeat(1_000));
    for (const key of ['a', 'b']) {
      await producer.send([{ topic, messages: Array.from({ length: 50 }, () => ({ partition: 0, key, value })) }]);
    }
    const { CompressionTypes, CompressionCodecs } = (await import('kafkajs')).default;
    for (const type of [CompressionTypes.LZ4, CompressionTypes.ZSTD] as const) {
      (CompressionCodecs as Record<number, () => unknown>)[type] = () => {
        throw new Error('kafkajs has no codec');
      };
    }
    const consumer = new Kafka({ brokers: [...brokers!], logLevel: logLevel.NOTHING }).consumer({
      groupId: unique('bare'),
    });
    closing({ close: () => consumer.disconnect() });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    let read = 0;
    await new Promise<void>((resolve, reject) => {
      const eachBatch = async ({ batch }: { batch: { messages: unknown[] } }): Promise<void> => {
        read += batch.messages.length;
        if (read === 100) resolve();
      };
      consumer.run({ eachBatch }).catch(reject);
    });
    expect(read).toBe(100);
  });
});
