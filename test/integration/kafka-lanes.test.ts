import { Connection, NetworkError } from '@platformatic/kafka';
import { Kafka, logLevel } from 'kafkajs';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { BusLane } from '../../src/ports/bus.ts';
import { brokers, closing, committedKeys, message, openBus, unique } from './kafka-opening.ts';

const PRODUCE = 0;
const END_TXN = 26;

type Send = Connection['send'];

/**
 * Stands between our code and the real connection, for one request of a kind: the request reaches the broker, which does as
 * asked, and its answer is lost (`answer`); or it never leaves (`request`).
 */
function loseOnce(apiKey: number, what: 'answer' | 'request'): { lost: () => number } {
  let lost = 0;
  const real = Connection.prototype.send;
  vi.spyOn(Connection.prototype, 'send').mockImplementation(function (this: Connection, ...args: Parameters<Send>) {
    const callback = args[6];
    if (args[0] !== apiKey || lost > 0) return Reflect.apply(real, this, args);
    lost += 1;
    const cut = (): void => callback(new NetworkError('cut on purpose'));
    if (what === 'request') return cut();
    return Reflect.apply(real, this, [...args.slice(0, 6), cut]);
  } as Send);
  return { lost: () => lost };
}

afterEach(() => vi.restoreAllMocks());

/** A commit that is taken back after its records are in the log: one of its topics does not exist. */
async function aborted(lane: BusLane, topic: string, keys: readonly string[]): Promise<void> {
  const missing = { topic: unique('missing'), messages: [message('x')] };
  const failed = lane.commit([{ topic, messages: keys.map((key) => message(key)) }, missing]);
  await expect(failed).rejects.toMatchObject({ code: 'topic-unknown' });
}

describe.skipIf(brokers === null)('lanes on Kafka', () => {
  test('what transactions took back is never read, by us or by kafkajs, however they lie between the others', async () => {
    const bus = openBus();
    const topic = unique('aborted');
    await bus.ensureTopics([{ name: topic, partitions: 1 }]);
    const [a, b] = [await bus.lane(unique('a')), await bus.lane(unique('b'))];
    const producer = await bus.producer();
    const expected: string[] = [];
    for (let round = 0; round < 5; round += 1) {
      await aborted(a, topic, [`a${round} back`, `a${round} back too`]);
      await b.commit([{ topic, messages: [message(`b${round}`)] }]);
      await aborted(b, topic, [`b${round} back`]);
      await producer.send([{ topic, messages: [message(`p${round}`)] }]);
      await a.commit([{ topic, messages: [message(`a${round}`)] }]);
      expected.push(`b${round}`, `p${round}`, `a${round}`);
    }
    await aborted(a, topic, ['last back']);
    expect(await committedKeys(bus, topic)).toEqual(expected);

    // Every offset as a start, in the middle of transactions and on their marks too.
    const end = (await bus.offsets(topic))[0]!.end;
    const offsets = new Map<number, string[]>();
    for (let from = 0; from <= end; from += 1) {
      const reader = await bus.reader(topic, 0, from);
      const keys: string[] = [];
      while (!(await reader.caughtUp())) keys.push(...(await reader.read(0)).map(({ key }) => key!));
      offsets.set(from, keys);
      await reader.close();
    }
    for (const keys of offsets.values()) expect(keys).toEqual(expected.slice(expected.length - keys.length));
    expect(offsets.get(0)).toHaveLength(15);
    expect(offsets.get(end)).toHaveLength(0);

    const kafkajs = new Kafka({ brokers: [...brokers!], clientId: 'judge', logLevel: logLevel.NOTHING });
    const consumer = kafkajs.consumer({ groupId: unique('judge') });
    closing({ close: () => consumer.disconnect() });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    const keys: string[] = [];
    await new Promise<void>((resolve, reject) => {
      consumer
        .run({
          eachMessage: async ({ message: { key } }) => {
            keys.push(key!.toString());
            if (keys.length >= expected.length) resolve();
          },
        })
        .catch(reject);
    });
    expect(keys).toEqual(expected);
  });

  test.each(['answer', 'request'] as const)('a commit whose end lost its %s is resolved: one copy', async (what) => {
    const bus = openBus();
    const topic = unique('end-lost');
    await bus.ensureTopics([{ name: topic, partitions: 1 }]);
    const lane = await bus.lane(unique('lane'));
    await lane.commit([{ topic, messages: [message('first')] }]);
    const { lost } = loseOnce(END_TXN, what);
    await lane.commit([{ topic, messages: [message('second')] }]);
    expect(lost()).toBe(1);
    await lane.commit([{ topic, messages: [message('third')] }]);
    expect(await committedKeys(bus, topic)).toEqual(['first', 'second', 'third']);
  });

  test.each(['answer', 'request'] as const)('records whose write lost its %s are there once', async (what) => {
    const bus = openBus();
    const topic = unique('produce-lost');
    await bus.ensureTopics([{ name: topic, partitions: 1 }]);
    const lane = await bus.lane(unique('lane'));
    const producer = await bus.producer();
    for (const [name, send] of [
      ['lane', (key: string) => lane.commit([{ topic, messages: [message(key)] }])],
      ['producer', (key: string) => producer.send([{ topic, messages: [message(key)] }])],
    ] as const) {
      const before = await committedKeys(bus, topic);
      await send(`${name} 1`);
      const { lost } = loseOnce(PRODUCE, what);
      await send(`${name} 2`);
      expect(lost()).toBe(1);
      vi.restoreAllMocks();
      await send(`${name} 3`);
      expect(await committedKeys(bus, topic)).toEqual([...before, `${name} 1`, `${name} 2`, `${name} 3`]);
    }
  });

  test('an open transaction of the former holder is taken back, and holds up nobody', async () => {
    const bus = openBus();
    const topic = unique('left-open');
    await bus.ensureTopics([{ name: topic, partitions: 1 }]);
    const id = unique('lane');
    const old = await bus.lane(id);
    await old.commit([{ topic, messages: [message('before')] }]);
    // The holder dies after its records were written: its end never leaves.
    const ended = Promise.withResolvers<() => void>();
    const real = Connection.prototype.send;
    vi.spyOn(Connection.prototype, 'send').mockImplementation(function (this: Connection, ...args: Parameters<Send>) {
      if (args[0] === END_TXN) return ended.resolve(() => Reflect.apply(real, this, args));
      return Reflect.apply(real, this, args);
    } as Send);
    const late = old.commit([{ topic, messages: [message('left open')] }]);
    const endOfOld = await ended.promise;
    vi.restoreAllMocks();
    const reader = await bus.reader(topic, 0, 'first');
    expect((await reader.read(1_000)).map(({ key }) => key)).toEqual(['before']);
    await reader.close();
    const taken = await bus.lane(id);
    await taken.commit([{ topic, messages: [message('after')] }]);
    expect(await committedKeys(bus, topic)).toEqual(['before', 'after']);
    endOfOld();
    await expect(late).rejects.toMatchObject({ code: 'lane-fenced' });
    await expect(old.commit([{ topic, messages: [message('never')] }])).rejects.toMatchObject({ code: 'lane-fenced' });
    await taken.commit([{ topic, messages: [message('last')] }]);
    expect(await committedKeys(bus, topic)).toEqual(['before', 'after', 'last']);
  });

  test('a transaction that the coordinator gave up was not committed, and its holder goes on', async () => {
    const bus = openBus({ transactionTimeoutMs: 1_000 });
    const topic = unique('timed-out');
    await bus.ensureTopics([{ name: topic, partitions: 1 }]);
    const lane = await bus.lane(unique('lane'));
    await lane.commit([{ topic, messages: [message('before')] }]);
    const ended = Promise.withResolvers<() => void>();
    const real = Connection.prototype.send;
    vi.spyOn(Connection.prototype, 'send').mockImplementation(function (this: Connection, ...args: Parameters<Send>) {
      if (args[0] === END_TXN) return ended.resolve(() => Reflect.apply(real, this, args));
      return Reflect.apply(real, this, args);
    } as Send);
    const commit = lane.commit([{ topic, messages: [message('given up')] }]);
    const end = await ended.promise;
    vi.restoreAllMocks();
    // The coordinator looks every 10 s; what it gave up no longer holds up readers.
    const reader = await bus.reader(topic, 0, 'first');
    const producer = await bus.producer();
    await producer.send([{ topic, messages: [message('behind it')] }]);
    const keys: (string | null)[] = [];
    while (keys.length < 2) keys.push(...(await reader.read(5_000)).map(({ key }) => key));
    expect(keys).toEqual(['before', 'behind it']);
    end();
    await expect(commit).rejects.toMatchObject({ code: 'unavailable' });
    await lane.commit([{ topic, messages: [message('goes on')] }]);
    expect(await committedKeys(bus, topic)).toEqual(['before', 'behind it', 'goes on']);
  });
});
