import { Connection } from '@platformatic/kafka';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { GroupHandler, GroupHolder, GroupPartition } from '../../src/ports/bus.ts';
import { brokers, committedKeys, message, openBus, unique } from './kafka-opening.ts';

const END_TXN = 26;
const HEARTBEAT = 12;

afterEach(() => vi.restoreAllMocks());

describe.skipIf(brokers === null)('groups on Kafka', () => {
  test('who takes a partition over begins after what the last transaction of the former one is just storing', async () => {
    const bus = openBus();
    const topic = unique('input');
    const group = unique('group');
    await bus.ensureTopics([{ name: topic, partitions: 1 }]);
    const producer = await bus.producer();
    await producer.send([{ topic, messages: [message('a'), message('b'), message('c')] }]);
    const lane = await bus.lane(unique('lane'));
    const ended = Promise.withResolvers<() => void>();
    const real = Connection.prototype.send;
    vi.spyOn(Connection.prototype, 'send').mockImplementation(function (
      this: Connection,
      ...args: Parameters<Connection['send']>
    ) {
      if (args[0] === END_TXN) return ended.resolve(() => Reflect.apply(real, this, args));
      return Reflect.apply(real, this, args);
    } as Connection['send']);
    const storing = lane.commit([], [{ group, topic, partition: 0, next: 2 }]);
    const end = await ended.promise;
    vi.restoreAllMocks();
    const given = Promise.withResolvers<number>();
    const read = Promise.withResolvers<(string | null)[]>();
    let stored = false;
    const member = await bus.join(group, topic, {
      async assigned(partition) {
        expect(stored).toBe(true);
        given.resolve(partition.next);
      },
      async batch(_partition, records) {
        read.resolve(records.map(({ key }) => key));
      },
    });
    stored = true;
    end();
    await storing;
    expect(await given.promise).toBe(2);
    expect(await read.promise).toEqual(['c']);
    await member.close();
  });

  test('an offset of a holder that holds the partition no more is refused, whatever lane stores it', async () => {
    const topic = unique('held');
    const group = unique('group');
    const bus = openBus();
    await bus.ensureTopics([{ name: topic, partitions: 2 }]);
    const held: { partition: number; holder: GroupHolder }[] = [];
    let wanted = 2;
    let given = Promise.withResolvers<void>();
    const handler: GroupHandler = {
      async assigned({ partition, holder }) {
        held.push({ partition, holder });
        if (held.length === wanted) given.resolve();
      },
      async batch() {},
    };
    const first = await bus.join(group, topic, handler);
    await given.promise;
    const former = held.find(({ partition }) => partition === 1)!.holder;
    // Another member: all partitions are given out anew.
    wanted = 4;
    given = Promise.withResolvers();
    const second = await openBus().join(group, topic, handler);
    await given.promise;
    const now = held.findLast(({ partition }) => partition === 1)!.holder;
    const lane = await bus.lane(unique('lane'));
    const stored = { group, topic, partition: 1 };
    const late = lane.commit([{ topic, messages: [message('late')] }], [{ ...stored, next: 7, holder: former }]);
    await expect(late).rejects.toMatchObject({ code: 'unavailable' });
    await lane.commit([{ topic, messages: [message('right')] }], [{ ...stored, next: 0, holder: now }]);
    expect(await committedKeys(bus, topic)).toEqual(['right']);
    await first.close();
    await second.close();
  });

  test('O-KF-03: a batch that lasts longer than the session does not cost the membership', async () => {
    const bus = openBus({ sessionTimeoutMs: 6_000 });
    const topic = unique('long');
    await bus.ensureTopics([{ name: topic, partitions: 1 }]);
    const producer = await bus.producer();
    await producer.send([{ topic, messages: [message('a')] }]);
    const calls: string[] = [];
    const beats = Promise.withResolvers<void>();
    const committed = Promise.withResolvers<void>();
    let seen = 0;
    const real = Connection.prototype.send;
    vi.spyOn(Connection.prototype, 'send').mockImplementation(function (
      this: Connection,
      ...args: Parameters<Connection['send']>
    ) {
      if (args[0] === HEARTBEAT) seen += 1;
      // One a second: with eight of them the session of 6 s would be over without.
      if (seen === 8) beats.resolve();
      return Reflect.apply(real, this, args);
    } as Connection['send']);
    const member = await bus.join(unique('group'), topic, {
      async assigned() {
        calls.push('assigned');
      },
      async batch({ partition }: GroupPartition, records) {
        calls.push('batch');
        await beats.promise;
        await member.commit(partition, records.at(-1)!.offset + 1);
        committed.resolve();
      },
      async revoked() {
        calls.push('revoked');
      },
    });
    await committed.promise;
    expect(calls).toEqual(['assigned', 'batch']);
    await member.close();
    expect(calls).toEqual(['assigned', 'batch', 'revoked']);
    await expect(member.commit(0, 1)).rejects.toMatchObject({ code: 'unavailable' });
  });
});
