import { expect, test } from 'vitest';
import { type TriggerHead, triggerHead, triggerMessage } from '../../src/core/envelope.ts';
import { executionId } from '../../src/core/job.ts';
import { MessageBatch } from '../../src/engine/firing/message-batch.ts';
import type { BusLane, BusMessage, TriggerBatch } from '../../src/ports/bus.ts';
import type { Opened } from './bus.contract.ts';
import { firstOffsets } from './bus-group.contract.ts';
import { makeTopic, message, numbered, readAll, readCount, sendAll, textOf, textsOf } from './bus-reading.ts';

const fenced = expect.objectContaining({ code: 'lane-fenced' });

export function laneStatements(opened: Opened): void {
  test('a commit is visible whole: all topics and partitions, in order', async () => {
    const { bus, unique } = opened();
    const [a, b] = [await makeTopic(bus, unique('lane-a'), 2), await makeTopic(bus, unique('lane-b'))];
    const lane = await bus.lane(unique('lane'));
    await lane.commit([
      { topic: a, messages: [...numbered(0, 'x', 100), ...numbered(1, 'y', 100)] },
      { topic: b, messages: [message(0, 'progress', '{"t":1}')] },
    ]);
    expect(await textsOf(bus, a, 0)).toEqual(Array.from({ length: 100 }, (_, i) => `x-${i}`));
    expect(await textsOf(bus, a, 1)).toEqual(Array.from({ length: 100 }, (_, i) => `y-${i}`));
    expect(await textsOf(bus, b)).toEqual(['{"t":1}']);
    await lane.close();
  });

  test('commits in turn: in order, caught up after each, with records of producers in between', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('turns'));
    const lane = await bus.lane(unique('turns-lane'));
    const reader = await bus.reader(topic, 0, 'first');
    const seen = [];
    for (let i = 0; i < 5; i += 1) {
      await lane.commit([{ topic, messages: [message(0, 'k', `lane-${i}`)] }]);
      await sendAll(bus, topic, [message(0, 'k', `producer-${i}`)]);
      seen.push(...(await readCount(reader, 2)).map(textOf));
      // What a broker keeps between records (the marks of transactions) does not count as unread.
      expect(await reader.caughtUp()).toBe(true);
    }
    expect(seen).toEqual(Array.from({ length: 5 }, (_, i) => [`lane-${i}`, `producer-${i}`]).flat());
    await reader.close();
    await lane.close();
  });

  test('a reader is caught up after a commit that is the last thing in the log', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('last'));
    const lane = await bus.lane(unique('last-lane'));
    await lane.commit([{ topic, messages: numbered(0, 'v', 10) }]);
    expect(await readAll(bus, topic)).toHaveLength(10);
    await lane.close();
  });

  test('an empty commit is no error', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('empty'));
    const lane = await bus.lane(unique('empty-lane'));
    await lane.commit([]);
    await lane.commit([{ topic, messages: [] }], []);
    await lane.commit([{ topic, messages: [message(0, 'a', 'after')] }]);
    expect(await textsOf(bus, topic)).toEqual(['after']);
    await lane.close();
  });

  test('10,000 records in one commit', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('big-commit'), 4);
    const lane = await bus.lane(unique('big-lane'));
    const messages = numbered(0, 'v', 10_000).map((m, i) => ({ ...m, partition: i % 4 }));
    await lane.commit([{ topic, messages }]);
    for (const p of [0, 1, 2, 3]) {
      expect(await textsOf(bus, topic, p)).toEqual(Array.from({ length: 2_500 }, (_, i) => `v-${4 * i + p}`));
    }
    await lane.close();
  });

  test('opening a lane fences its earlier holder for good: nothing of it becomes visible, records or offsets', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('fenced'));
    const [id, group] = [unique('fenced-lane'), unique('fenced-group')];
    await sendAll(bus, topic, numbered(0, 'before', 3));
    const offset = (await readAll(bus, topic))[2]!.offset;
    const old = await bus.lane(id);
    await old.commit([{ topic, messages: [message(0, 'a', 'old')] }]);
    const taken = await bus.lane(id);
    const late = [{ topic, messages: [message(0, 'a', 'late')] }];
    await expect(old.commit(late, [{ group, topic, partition: 0, next: offset }])).rejects.toEqual(fenced);
    await taken.commit([{ topic, messages: [message(0, 'a', 'new')] }]);
    await expect(old.commit(late)).rejects.toEqual(fenced);
    await taken.commit([{ topic, messages: [message(0, 'a', 'newer')] }]);
    expect((await textsOf(bus, topic)).slice(3)).toEqual(['old', 'new', 'newer']);
    expect(await firstOffsets(bus, group, topic, 1)).toEqual([(await bus.offsets(topic))[0]!.first]);
    await old.close();
    await taken.close();
  });

  test('a holder in another process is fenced as well', async () => {
    const { bus, unique, another } = opened();
    const topic = await makeTopic(bus, unique('across'));
    const other = await another();
    const id = unique('across-lane');
    const lanes: BusLane[] = [];
    for (const from of [bus, other, bus, other]) lanes.push(await from.lane(id));
    const outcomes = [];
    for (const [i, lane] of lanes.entries()) {
      const commit = lane.commit([{ topic, messages: [message(0, 'a', `holder-${i}`)] }]);
      outcomes.push(
        await commit.then(
          () => 'committed',
          (error: { code: string }) => error.code,
        ),
      );
    }
    expect(outcomes).toEqual(['lane-fenced', 'lane-fenced', 'lane-fenced', 'committed']);
    expect(await textsOf(bus, topic)).toEqual(['holder-3']);
    for (const lane of lanes) await lane.close();
    if (other !== bus) await other.close();
  });

  test('lanes of other ids are not fenced', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('others'));
    const a = await bus.lane(unique('others-0'));
    const b = await bus.lane(unique('others-1'));
    expect(a.id).toBe(unique('others-0'));
    await a.commit([{ topic, messages: [message(0, 'k', 'a')] }]);
    await b.commit([{ topic, messages: [message(0, 'k', 'b')] }]);
    await a.commit([{ topic, messages: [message(0, 'k', 'a again')] }]);
    expect(await textsOf(bus, topic)).toEqual(['a', 'b', 'a again']);
    await a.close();
    await b.close();
  });

  test('a commit with a topic that does not exist, or a record that is too large, changes nothing; the next one works', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('all-or-nothing'));
    const lane = await bus.lane(unique('all-or-nothing-lane'));
    const good = { topic, messages: [message(0, 'a', 'lost')] };
    const missing = { topic: unique('missing'), messages: [message(0, 'a', 'lost')] };
    await expect(lane.commit([good, missing])).rejects.toMatchObject({ code: 'topic-unknown' });
    const large = { topic, messages: [{ partition: 0, key: 'a', value: new Uint8Array(2 * 1024 * 1024) }] };
    await expect(lane.commit([good, large])).rejects.toMatchObject({ code: 'record-too-large' });
    await lane.commit([{ topic, messages: [message(0, 'a', 'kept')] }]);
    expect(await textsOf(bus, topic)).toEqual(['kept']);
    await lane.close();
  });

  test('triggers are read as the messages that they stand for, in order with others', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('triggers'), 2);
    const lane = await bus.lane(unique('triggers-lane'));
    const nominalMs = Date.UTC(2026, 10, 30);
    const jobs = Array.from({ length: 3_000 }, (_, i) => {
      const record = { key: `jöb-${i}`, version: 2, payload: `{"n":${i}}`, contentType: 'application/json' };
      const envelope = i % 3 === 0 ? ('cloudevents' as const) : ('compact' as const);
      return { i, head: triggerHead({ name: 'team', partitions: 2, envelope }, record, 7) };
    });
    const early = jobs.map(({ i, head }) => triggerMessage(head, executionId(4, i, 12_345), 12_345, 12_345));
    const late = jobs.map(({ i, head }) =>
      triggerMessage(head, executionId(4, i, nominalMs), nominalMs, nominalMs + 5),
    );
    const batch: TriggerBatch = lane.triggers?.() ?? new MessageBatch();
    for (const { i, head } of jobs) batch.add(topic, head, 4, i, 12_345, 12_345);
    for (const { i, head } of jobs) batch.add(topic, head, 4, i, nominalMs, nominalMs + 5);
    batch.message(topic, message(1, 'own', 'last'));
    expect(batch.count).toBe(6_001);
    await lane.commit([...batch.toMessages(), { topic, messages: [message(0, 'after', 'all')] }]);
    const shown = ({ key, value, headers }: BusMessage) => {
      return { key, value: Buffer.from(value!).toString(), headers: { ...headers } };
    };
    for (const partition of [0, 1]) {
      const sent = [...early, ...late].filter((one) => one.partition === partition);
      const read = await readAll(bus, topic, partition);
      expect(read.slice(0, -1).map(shown)).toEqual(sent.map(shown));
      expect(read.at(-1)!.key).toBe(partition === 0 ? 'after' : 'own');
    }
    await lane.close();
  });

  test('triggers for a topic that does not exist, or too large, change nothing; the next ones go', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('refused-triggers'));
    const lane = await bus.lane(unique('refused-lane'));
    const at = Date.UTC(2026, 10, 30);
    const record = { key: 'a', version: 1, payload: '{}', contentType: 'application/json' };
    const head = triggerHead({ name: 'team', partitions: 1, envelope: 'compact' }, record, 1);
    const large = { ...head, value: new Uint8Array(2 * 1024 * 1024), kept: null };
    const refused = async (other: string, second: TriggerHead): Promise<unknown> => {
      const batch: TriggerBatch = lane.triggers?.() ?? new MessageBatch();
      batch.add(topic, head, 1, 1, at, at);
      batch.add(other, second, 1, 2, at, at);
      return lane.commit(batch.toMessages()).catch((error: { code: string }) => error.code);
    };
    expect(await refused(unique('no-topic'), head)).toBe('topic-unknown');
    expect(await refused(topic, { ...head, partition: 1, kept: null })).toBe('topic-unknown');
    expect(await refused(topic, large)).toBe('record-too-large');
    expect(await refused(topic, head)).toBeUndefined();
    expect(await readAll(bus, topic)).toHaveLength(2);
    await lane.close();
  });

  test('offsets of a group are stored with the commit, also without records', async () => {
    const { bus, unique } = opened();
    const [input, output] = [await makeTopic(bus, unique('input'), 2), await makeTopic(bus, unique('output'))];
    const group = unique('lane-group');
    await sendAll(bus, input, [...numbered(0, 'a', 10), ...numbered(1, 'b', 10)]);
    const zero = await readAll(bus, input, 0);
    const one = await readAll(bus, input, 1);
    const lane = await bus.lane(unique('offsets-lane'));
    await lane.commit(
      [{ topic: output, messages: [message(0, 'k', 'done')] }],
      [
        { group, topic: input, partition: 0, next: zero[4]!.offset },
        { group, topic: input, partition: 1, next: one[1]!.offset },
      ],
    );
    await lane.commit([], [{ group, topic: input, partition: 1, next: one[7]!.offset }]);
    expect(await firstOffsets(bus, group, input, 2)).toEqual([zero[4]!.offset, one[7]!.offset]);
    await lane.close();
  });

  test('a lane holds after a restart: its id goes on, records and offsets are there', async () => {
    const { bus, unique, reopen } = opened();
    const topic = await makeTopic(bus, unique('lane-restart'));
    const [id, group] = [unique('lane-restart-id'), unique('lane-restart-group')];
    const before = await bus.lane(id);
    await before.commit([{ topic, messages: numbered(0, 'v', 3) }]);
    const next = (await readAll(bus, topic))[2]!.offset;
    await before.commit([], [{ group, topic, partition: 0, next }]);
    await before.close();
    if (reopen !== undefined) await reopen();
    const again = opened().bus;
    const lane = await again.lane(id);
    await lane.commit([{ topic, messages: [message(0, 'k', 'after')] }]);
    expect(await textsOf(again, topic)).toEqual(['v-0', 'v-1', 'v-2', 'after']);
    expect(await firstOffsets(again, group, topic, 1)).toEqual([next]);
    await lane.close();
  });
}
