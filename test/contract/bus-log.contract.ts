import { expect, test } from 'vitest';
import { isCode } from '../../src/core/errors.ts';
import type { BusRecord } from '../../src/ports/bus.ts';
import type { Opened } from './bus.contract.ts';
import { makeTopic, message, numbered, readAll, readCount, sendAll, textOf, textsOf } from './bus-reading.ts';

const code = async (promise: Promise<unknown>): Promise<string> => {
  try {
    await promise;
    return 'no error';
  } catch (error) {
    return isCode(error, (error as { code: never }).code) ? (error as { code: string }).code : String(error);
  }
};

function topicStatements(opened: Opened): void {
  test('a topic is made once; making it again changes nothing; more partitions than asked for are left alone', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('made'), 3);
    await sendAll(bus, topic, [message(2, 'a', 'kept')]);
    await bus.ensureTopics([{ name: topic, partitions: 3 }]);
    await bus.ensureTopics([{ name: topic, partitions: 2 }]);
    expect(await bus.partitions(topic)).toBe(3);
    expect(await textsOf(bus, topic, 2)).toEqual(['kept']);
    await bus.ensureTopics([]);
  });

  test('a topic with fewer partitions than asked for is refused', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('few'), 2);
    expect(await code(bus.ensureTopics([{ name: topic, partitions: 4 }]))).toBe('setup-refused');
    expect(await bus.partitions(topic)).toBe(2);
  });

  test('a topic that does not exist: partitions, offsets and reader fail with topic-unknown', async () => {
    const { bus, unique } = opened();
    const topic = unique('nowhere');
    expect(await code(bus.partitions(topic))).toBe('topic-unknown');
    expect(await code(bus.offsets(topic))).toBe('topic-unknown');
    expect(await code(bus.reader(topic, 0, 'first'))).toBe('topic-unknown');
  });

  test('a deleted topic is unknown, its records are gone when it is made again, and deleting twice is no error', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('deleted'));
    await sendAll(bus, topic, [message(0, 'a', 'old')]);
    await bus.deleteTopics([topic]);
    await bus.deleteTopics([topic]);
    expect(await code(bus.partitions(topic))).toBe('topic-unknown');
    await makeTopic(bus, topic);
    await sendAll(bus, topic, [message(0, 'a', 'new')]);
    expect(await textsOf(bus, topic)).toEqual(['new']);
  });

  test('offsets: an empty partition has first = end; end is after the last committed record', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('offsets'), 2);
    const before = await bus.offsets(topic);
    expect(before).toHaveLength(2);
    expect(before[0]!.first).toBe(before[0]!.end);
    await sendAll(bus, topic, numbered(1, 'v', 5));
    const after = await bus.offsets(topic);
    expect(after[0]).toEqual(before[0]);
    const last = (await readAll(bus, topic, 1)).at(-1)!;
    expect(after[1]!.end).toBeGreaterThan(last.offset);
    expect(after[1]!.first).toBeLessThanOrEqual(last.offset - 4);
  });

  test('a compacted topic keeps the last record of each key', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('compacted'), 1, { compacted: true });
    for (let round = 0; round < 5; round += 1) await sendAll(bus, topic, numbered(0, `round-${round}`, 20));
    await sendAll(bus, topic, [message(0, 'key-7', null), message(0, 'key-8', 'first'), message(0, 'key-8', 'last')]);
    const last = new Map((await readAll(bus, topic)).map((record) => [record.key, textOf(record)]));
    const expected = new Map<string, string | null>(numbered(0, '', 20).map((m, i) => [m.key!, `round-4-${i}`]));
    expected.set('key-7', null);
    expected.set('key-8', 'last');
    expect(last.get('key-7') ?? null).toBeNull();
    last.set('key-7', null);
    expect([...last].sort()).toEqual([...expected].sort());
  });
}

function sendStatements(opened: Opened): void {
  test('a record comes back as it was sent: key, value, headers, time, and what is null', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('round-trip'));
    const value = new Uint8Array([0, 1, 127, 128, 255]);
    const headers = { id: '7-1-1780000000000', note: 'ä/漢' };
    await sendAll(bus, topic, [
      { partition: 0, key: 'team:α/📦', value, headers },
      { partition: 0, key: null, value: new Uint8Array(0) },
      { partition: 0, key: 'gone', value: null },
    ]);
    const [first, second, third] = await readAll(bus, topic);
    expect(first).toMatchObject({ partition: 0, key: 'team:α/📦', headers });
    expect(Uint8Array.from(first!.value!)).toEqual(value);
    expect(first!.timestampMs).toBeGreaterThan(0);
    expect(Number.isInteger(first!.timestampMs)).toBe(true);
    expect(second).toMatchObject({ key: null, headers: {} });
    expect(second!.value!.length).toBe(0);
    expect(third).toMatchObject({ key: 'gone', value: null });
  });

  test('nothing to send is no error', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('nothing'));
    const producer = await bus.producer();
    expect(await producer.send([])).toEqual([]);
    expect(await producer.send([{ topic, messages: [] }])).toEqual([]);
    await producer.close();
    expect(await readAll(bus, topic)).toEqual([]);
  });

  test('one batch over topics and partitions: each partition has its own, in the order of the batch', async () => {
    const { bus, unique } = opened();
    const [a, b] = [await makeTopic(bus, unique('a'), 2), await makeTopic(bus, unique('b'), 1)];
    const producer = await bus.producer();
    const mixed = numbered(0, 'x', 50).map((m, i) => ({ ...m, partition: i % 2 }));
    expect(
      await producer.send([
        { topic: a, messages: mixed },
        { topic: b, messages: numbered(0, 'y', 10) },
        { topic: a, messages: [message(0, 'z', 'last')] },
      ]),
    ).toEqual([]);
    await producer.close();
    expect(await textsOf(bus, a, 0)).toEqual([...Array.from({ length: 25 }, (_, i) => `x-${2 * i}`), 'last']);
    expect(await textsOf(bus, a, 1)).toEqual(Array.from({ length: 25 }, (_, i) => `x-${2 * i + 1}`));
    expect(await textsOf(bus, b)).toEqual(Array.from({ length: 10 }, (_, i) => `y-${i}`));
  });

  test('sends of one producer that were not awaited one by one stay in order', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('pipelined'));
    const producer = await bus.producer();
    const sends = Array.from({ length: 40 }, (_, i) => producer.send([{ topic, messages: [message(0, 'k', `${i}`)] }]));
    expect((await Promise.all(sends)).flat()).toEqual([]);
    await producer.close();
    expect(await textsOf(bus, topic)).toEqual(Array.from({ length: 40 }, (_, i) => `${i}`));
  });

  test('an unknown topic or partition is a definite failure of its own; the rest of the batch is durable', async () => {
    const { bus, unique } = opened();
    const [known, unknown] = [await makeTopic(bus, unique('known')), unique('unknown')];
    const producer = await bus.producer();
    const failures = await producer.send([
      { topic: known, messages: [message(0, 'a', 'before'), message(5, 'a', 'no such partition')] },
      { topic: unknown, messages: [message(0, 'a', 'lost'), message(0, 'b', 'lost too')] },
      { topic: known, messages: [message(0, 'b', 'after')] },
    ]);
    expect(failures).toHaveLength(2);
    expect(failures).toContainEqual({ topic: unknown, partition: 0, code: 'topic-unknown' });
    expect(failures).toContainEqual({ topic: known, partition: 5, code: 'topic-unknown' });
    expect(await textsOf(bus, known)).toEqual(['before', 'after']);
    await makeTopic(bus, unknown);
    expect(await producer.send([{ topic: unknown, messages: [message(0, 'a', 'now')] }])).toEqual([]);
    expect(await textsOf(bus, unknown)).toEqual(['now']);
    await producer.close();
  });

  test('a record that is too large fails alone, named; the others of its partition are durable (O-KF-01)', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('large'), 2);
    const large = { partition: 0, key: 'a', value: new Uint8Array(2 * 1024 * 1024) };
    const producer = await bus.producer();
    const messages = [message(0, 'a', 'before'), large, message(1, 'a', 'other'), message(0, 'a', 'after')];
    const failures = await producer.send([{ topic, messages }]);
    expect(failures).toHaveLength(1);
    expect(failures[0]).toMatchObject({ topic, partition: 0, code: 'record-too-large' });
    expect(failures[0]!.places).toEqual([1]);
    expect(await producer.send([{ topic, messages: [message(0, 'a', 'next')] }])).toEqual([]);
    expect(await textsOf(bus, topic, 0)).toEqual(['before', 'after', 'next']);
    expect(await textsOf(bus, topic, 1)).toEqual(['other']);
    await producer.close();
  });

  test('a batch that is large only in sum goes through', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('sum'));
    const messages = Array.from({ length: 30 }, (_, i) => ({
      partition: 0,
      key: `${i}`,
      value: new Uint8Array(200_000).fill(i),
    }));
    await sendAll(bus, topic, messages);
    expect((await readAll(bus, topic)).map((record) => [record.key, record.value![199_999]])).toEqual(
      messages.map((m, i) => [m.key, i]),
    );
  });
}

function readerStatements(opened: Opened): void {
  test('20,000 records come in order, with rising offsets, none twice, and no read above its bound', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('many'));
    for (let i = 0; i < 4; i += 1) await sendAll(bus, topic, numbered(0, `part-${i}`, 5_000));
    const reader = await bus.reader(topic, 0, 'first');
    const records: BusRecord[] = [];
    while (!(await reader.caughtUp())) {
      const batch = await reader.read(1_000, 700);
      expect(batch.length).toBeLessThanOrEqual(700);
      records.push(...batch);
    }
    expect((await reader.read(0)).length).toBe(0);
    await reader.close();
    expect(records.map(textOf)).toEqual(
      Array.from({ length: 20_000 }, (_, i) => `part-${Math.floor(i / 5_000)}-${i % 5_000}`),
    );
    expect(records.every((record, i) => i === 0 || record.offset > records[i - 1]!.offset)).toBe(true);
  });

  test('a read gives 1,000 records at most when no bound is named', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('default-bound'));
    await sendAll(bus, topic, numbered(0, 'v', 1_500));
    const reader = await bus.reader(topic, 0, 'first');
    const sizes = [];
    for (let read = 0; read < 1_500; read += sizes.at(-1)!) sizes.push((await reader.read(1_000)).length);
    await reader.close();
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000);
  });

  test('a reader starts at exactly its offset, and position names the next one', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('from'));
    await sendAll(bus, topic, numbered(0, 'v', 10));
    const all = await readAll(bus, topic);
    const reader = await bus.reader(topic, 0, all[4]!.offset);
    expect(reader.position).toBe(all[4]!.offset);
    const [one] = await reader.read(10_000, 1);
    expect(textOf(one!)).toBe('v-4');
    expect(reader.position).toBeGreaterThan(all[4]!.offset);
    expect(reader.position).toBeLessThanOrEqual(all[5]!.offset);
    expect((await readCount(reader, 5)).map(textOf)).toEqual(['v-5', 'v-6', 'v-7', 'v-8', 'v-9']);
    await reader.close();
  });

  test('end is where the log ended when the reader was opened, and first where it begins', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('end'));
    await sendAll(bus, topic, numbered(0, 'before', 3));
    const atEnd = await bus.reader(topic, 0, 'end');
    expect(await atEnd.caughtUp()).toBe(true);
    await sendAll(bus, topic, [message(0, 'a', 'after')]);
    expect(await atEnd.caughtUp()).toBe(false);
    expect((await readCount(atEnd, 1)).map(textOf)).toEqual(['after']);
    expect(await atEnd.caughtUp()).toBe(true);
    await atEnd.close();
    expect(await textsOf(bus, topic)).toEqual(['before-0', 'before-1', 'before-2', 'after']);
  });

  test('a reader of one partition sees no other', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('own'), 3);
    await sendAll(bus, topic, [message(0, 'a', 'zero'), message(1, 'a', 'one'), message(2, 'a', 'two')]);
    expect(await textsOf(bus, topic, 1)).toEqual(['one']);
  });

  test('a waiting read is woken by a record, also by one of another bus', async () => {
    const { bus, unique, another } = opened();
    const topic = await makeTopic(bus, unique('woken'));
    const other = await another();
    const reader = await bus.reader(topic, 0, 'end');
    for (const [i, from] of [bus, other].entries()) {
      const waiting = reader.read(50_000);
      await sendAll(from, topic, [message(0, 'a', `wake-${i}`)]);
      expect((await waiting).map(textOf)).toEqual([`wake-${i}`]);
    }
    await reader.close();
    if (other !== bus) await other.close();
  });

  test('closing a reader ends its waiting read with nothing', async () => {
    const { bus, unique } = opened();
    const topic = await makeTopic(bus, unique('closed'));
    const reader = await bus.reader(topic, 0, 'first');
    const waiting = reader.read(50_000);
    await reader.close();
    expect(await waiting).toEqual([]);
  });

  test('what was sent is there after a restart of the bus', async () => {
    const { bus, unique, reopen } = opened();
    const topic = await makeTopic(bus, unique('restart'), 2);
    await sendAll(bus, topic, numbered(1, 'v', 100));
    const before = await readAll(bus, topic, 1);
    if (reopen !== undefined) await reopen();
    const again = opened().bus;
    expect(await again.partitions(topic)).toBe(2);
    expect(await readAll(again, topic, 1)).toEqual(before);
    await sendAll(again, topic, [message(1, 'k', 'later')]);
    expect((await textsOf(again, topic, 1)).slice(99)).toEqual(['v-99', 'later']);
  });
}

export function logStatements(opened: Opened): void {
  topicStatements(opened);
  sendStatements(opened);
  readerStatements(opened);
}
