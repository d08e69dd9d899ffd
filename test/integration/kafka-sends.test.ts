import { Kafka, logLevel } from 'kafkajs';
import { describe, expect, test } from 'vitest';
import type { SendFailure } from '../../src/ports/bus.ts';
import { brokers, closing, committed, committedKeys, message, openBus, unique } from './kafka-opening.ts';

const kafkajs = (): Kafka => new Kafka({ brokers: [...brokers!], clientId: 'judge', logLevel: logLevel.NOTHING });

/** A topic whose batches are bounded below the broker's default; our topics do not set this. */
async function topicWithLimit(name: string, maxMessageBytes: number): Promise<void> {
  const admin = kafkajs().admin();
  await admin.connect();
  const configEntries = [{ name: 'max.message.bytes', value: String(maxMessageBytes) }];
  await admin.createTopics({ topics: [{ topic: name, numPartitions: 1, configEntries }], waitForLeaders: true });
  await admin.disconnect();
}

describe.skipIf(brokers === null)('sending to Kafka', () => {
  test('O-KF-01: of 500 records the one that is too large fails, named; the other 499 go out once, in order', async () => {
    const bus = openBus();
    const topic = unique('limit');
    await topicWithLimit(topic, 100_000);
    const messages = Array.from({ length: 500 }, (_, i) =>
      message(`${i}`, new Uint8Array(i === 137 ? 120_000 : 2_000).fill(i)),
    );
    const producer = await bus.producer();
    const failures = await producer.send([{ topic, messages }]);
    expect(failures).toMatchObject([{ topic, partition: 0, code: 'record-too-large' }]);
    expect(failures[0]!.places).toEqual([137]);
    expect(await committedKeys(bus, topic)).toEqual(messages.filter((_, i) => i !== 137).map(({ key }) => key));
    expect(await producer.send([{ topic, messages: [message('next')] }])).toEqual([]);
  });

  test('O-KF-04: a missing topic fails alone, the others go on within 1 s, and it is used as soon as it is there', async () => {
    const bus = openBus();
    const [there, missing] = [unique('jobs-a'), unique('jobs-b')];
    await bus.ensureTopics([{ name: there, partitions: 2 }]);
    const producer = await bus.producer();
    const both = (key: string): Promise<SendFailure[]> =>
      producer.send([
        { topic: there, messages: [message(key, key, 0), message(key, key, 1)] },
        { topic: missing, messages: [message(key)] },
      ]);
    const begun = performance.now();
    for (const key of ['1', '2', '3']) {
      expect(await both(key)).toEqual([{ topic: missing, partition: 0, code: 'topic-unknown' }]);
    }
    expect(performance.now() - begun).toBeLessThan(1_000);
    await openBus().ensureTopics([{ name: missing, partitions: 1 }]);
    expect(await both('4')).toEqual([]);
    expect(await committedKeys(bus, there, 1)).toEqual(['1', '2', '3', '4']);
    expect(await committedKeys(bus, missing)).toEqual(['4']);
  });

  test('O-KF-04: a topic deleted and made anew while sending: what was acknowledged last is there, other topics go on', async () => {
    const bus = openBus();
    const [steady, renewed] = [unique('steady'), unique('renewed')];
    await bus.ensureTopics([
      { name: steady, partitions: 1 },
      { name: renewed, partitions: 1 },
    ]);
    const producer = await bus.producer();
    const acknowledged: string[] = [];
    let phase = 'before';
    let stop = false;
    const sending = (async () => {
      for (let i = 0; !stop; i += 1) {
        const key = `${phase} ${i}`;
        const failures = await producer.send([
          { topic: renewed, messages: [message(key)] },
          { topic: steady, messages: [message(`${i}`)] },
        ]);
        expect(failures.filter(({ topic }) => topic === steady)).toEqual([]);
        if (failures.length === 0) acknowledged.push(key);
      }
    })();
    const untilSent = async (start: string): Promise<void> => {
      while (!acknowledged.at(-1)?.startsWith(start)) await new Promise((resolve) => setImmediate(resolve));
    };
    await untilSent('before');
    await bus.deleteTopics([renewed]);
    await bus.ensureTopics([{ name: renewed, partitions: 1 }]);
    phase = 'after';
    await untilSent('after');
    stop = true;
    await sending;
    const after = acknowledged.filter((key) => key.startsWith('after'));
    expect((await committedKeys(bus, renewed)).filter((key) => key!.startsWith('after'))).toEqual(after);
    const steadyKeys = await committedKeys(bus, steady);
    expect(steadyKeys).toEqual(steadyKeys.map((_, i) => `${i}`));
  });

  test('a business service with kafkajs reads key, value and headers byte for byte', async () => {
    const bus = openBus();
    const topic = unique('triggers');
    await bus.ensureTopics([{ name: topic, partitions: 3 }]);
    const headers = {
      ce_specversion: '1.0',
      ce_id: '17-123456-1790000000000',
      ce_subject: 'team:α/📦-42',
      'content-type': 'application/octet-stream',
      empty: '',
      long: 'ü'.repeat(5_000),
    };
    const value = Uint8Array.from({ length: 70_000 }, (_, i) => (i * 31) % 256);
    const producer = await bus.producer();
    const sent = [
      { partition: 2, key: 'team:α/📦-42', value, headers },
      { partition: 2, key: 'no value', value: null },
      { partition: 2, key: 'empty value', value: new Uint8Array(0), headers: {} },
    ];
    expect(await producer.send([{ topic, messages: sent }])).toEqual([]);
    const lane = await bus.lane(unique('lane'));
    await lane.commit([{ topic, messages: sent }]);

    const consumer = kafkajs().consumer({ groupId: unique('service') });
    closing({ close: () => consumer.disconnect() });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    const read: unknown[] = [];
    await new Promise<void>((resolve, reject) => {
      consumer
        .run({
          eachMessage: async ({ partition, message: got }) => {
            const named = Object.entries(got.headers ?? {}).map(([name, text]) => [name, text!.toString()]);
            read.push({ partition, key: got.key!.toString(), value: got.value, headers: Object.fromEntries(named) });
            if (read.length === 6) resolve();
          },
        })
        .catch(reject);
    });
    const expected = sent.map((one) => ({
      partition: one.partition,
      key: one.key,
      value: one.value === null ? null : Buffer.from(one.value),
      headers: one.headers ?? {},
    }));
    expect(read).toEqual([...expected, ...expected]);
    expect((await committed(bus, topic, 2))[3]).toMatchObject({ key: 'team:α/📦-42', headers });
  });

  test('100,000 records, one per call, over 8 partitions: each partition in order, none twice', async () => {
    const bus = openBus();
    const topic = unique('ordered');
    await bus.ensureTopics([{ name: topic, partitions: 8 }]);
    const producer = await bus.producer();
    for (let round = 0; round < 20; round += 1) {
      const calls = Array.from({ length: 5_000 }, (_, i) => {
        const n = round * 5_000 + i;
        return producer.send([{ topic, messages: [message(`${n}`, 'v', n % 8)] }]);
      });
      expect((await Promise.all(calls)).flat()).toEqual([]);
    }
    for (let partition = 0; partition < 8; partition += 1) {
      const keys = (await committedKeys(bus, topic, partition)).map(Number);
      expect(keys).toEqual(Array.from({ length: 12_500 }, (_, i) => i * 8 + partition));
    }
  });
});
