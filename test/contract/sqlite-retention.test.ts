import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ManualClock, manualClock } from '../../src/adapters/memory/clock.ts';
import type { SqliteStores } from '../../src/adapters/sqlite/stores.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { makeTopic, message, numbered, readAll, textsOf } from './bus-reading.ts';
import { dataFolder, openIn } from './sqlite-folder.ts';

const HOUR = 3_600_000;
let data: ReturnType<typeof dataFolder>;
let stores: SqliteStores;
let clock: ManualClock;
let events: { message: string; fields: Record<string, unknown> }[];

beforeEach(() => {
  data = dataFolder();
  clock = manualClock(Date.UTC(2026, 10, 30));
  events = [];
  const event = (_level: string, text: string, fields: Record<string, unknown> = {}): void =>
    void events.push({ message: text, fields });
  stores = openIn(data.folder, { clock, partitionBytes: 1_000_000 }, { ...silentTelemetry, event });
});
afterEach(async () => {
  await stores.close();
  data.remove();
});

async function commitGroup(group: string, topic: string, partition: number, next: number): Promise<void> {
  const lane = await stores.bus.lane(`lane-of-${group}`);
  await lane.commit([], [{ group, topic, partition, next }]);
}

async function send(topic: string, messages: ReturnType<typeof numbered>): Promise<void> {
  expect(await (await stores.bus.producer()).send([{ topic, messages }])).toEqual([]);
}

async function firstOf(topic: string, partition = 0): Promise<number> {
  return (await stores.bus.offsets(topic))[partition]!.first;
}

test('without groups a record goes when its time is over, and a reader of what went is told', async () => {
  const topic = await makeTopic(stores.bus, 'timed', 1, { retentionMs: HOUR });
  await send(topic, numbered(0, 'old', 3));
  await clock.advance(HOUR / 2);
  await send(topic, numbered(0, 'young', 2));
  await clock.advance(HOUR / 2);
  await stores.sweep();
  expect(await textsOf(stores.bus, topic)).toHaveLength(5);
  await clock.advance(1);
  const reader = await stores.bus.reader(topic, 0, 'first');
  await stores.sweep();
  expect(await textsOf(stores.bus, topic)).toEqual(['young-0', 'young-1']);
  expect(await firstOf(topic)).toBe(3);
  await expect(reader.read(0)).rejects.toMatchObject({ code: 'offset-unknown' });
  await expect(stores.bus.reader(topic, 0, 2)).rejects.toMatchObject({ code: 'offset-unknown' });
  await clock.advance(HOUR);
  await stores.sweep();
  expect(await stores.bus.offsets(topic)).toEqual([{ first: 5, end: 5 }]);
  await send(topic, [message(0, 'k', 'next')]);
  expect((await readAll(stores.bus, topic))[0]!.offset).toBe(5);
});

test('a record stays until every known group has committed it, then for its time', async () => {
  const topic = await makeTopic(stores.bus, 'grouped', 2, { retentionMs: HOUR });
  await send(topic, [...numbered(0, 'v', 10), ...numbered(1, 'w', 10)]);
  await commitGroup('a', topic, 0, 8);
  await commitGroup('b', topic, 0, 3);
  await commitGroup('a', topic, 1, 10);
  await stores.sweep();
  expect(await firstOf(topic)).toBe(0);
  await clock.advance(10 * HOUR);
  await stores.sweep();
  expect(await firstOf(topic, 0)).toBe(3);
  // Group b has committed nothing of partition 1.
  expect(await firstOf(topic, 1)).toBe(0);
  await commitGroup('b', topic, 0, 10);
  await commitGroup('b', topic, 1, 4);
  await stores.sweep();
  expect(await firstOf(topic, 0)).toBe(8);
  expect(await firstOf(topic, 1)).toBe(4);
  await commitGroup('a', topic, 0, 10);
  await commitGroup('b', topic, 1, 10);
  await stores.sweep();
  expect(await stores.bus.offsets(topic)).toEqual([
    { first: 10, end: 10 },
    { first: 10, end: 10 },
  ]);
  expect(events).toEqual([]);
  // What was cut in pieces adds up to what was written.
  const raw = new DatabaseSync(join(data.folder, 'carillon.db'));
  expect(raw.prepare('SELECT sum(bytes) AS bytes FROM partitions').get()).toEqual({ bytes: 0 });
  expect(raw.prepare('SELECT count(*) AS n FROM blocks').get()).toEqual({ n: 0 });
  raw.close();
});

test('a group that joined and committed nothing holds its records', async () => {
  const topic = await makeTopic(stores.bus, 'joined', 1, { retentionMs: HOUR });
  const member = await stores.bus.join('group', topic, { async batch() {} });
  await send(topic, numbered(0, 'v', 5));
  await member.close();
  await clock.advance(100 * HOUR);
  await stores.sweep();
  expect(await textsOf(stores.bus, topic)).toHaveLength(5);
});

test('the bound in bytes wins over everything, with an event for what a group had not read', async () => {
  const large = (n: number) =>
    Array.from({ length: n }, (_, i) => ({ partition: 0, key: `${i}`, value: new Uint8Array(1_000) }));
  const [own, bounded] = [
    await makeTopic(stores.bus, 'own-bound', 1, { retentionBytes: 50_000 }),
    await makeTopic(stores.bus, 'general-bound'),
  ];
  await send(own, large(100));
  await send(bounded, large(2_000));
  await commitGroup('group', own, 0, 20);
  await stores.sweep();
  const kept = await readAll(stores.bus, own);
  expect(kept.length).toBeGreaterThan(40);
  expect(kept.length).toBeLessThanOrEqual(50);
  const keptBounded = (await readAll(stores.bus, bounded)).length;
  expect(keptBounded).toBeGreaterThan(900);
  expect(keptBounded).toBeLessThanOrEqual(1_000);
  expect(events.map((one) => one.fields)).toEqual([
    { topic: own, partition: 0, records: 100 - kept.length - 20, before: kept[0]!.offset },
  ]);
});

test('a group whose records went by the bound is told and goes on with the first that is there', async () => {
  const topic = await makeTopic(stores.bus, 'lost', 1, { retentionBytes: 5_000 });
  await commitGroup('group', topic, 0, 0);
  await send(topic, numbered(0, 'v', 1_000));
  await stores.sweep();
  const first = (await readAll(stores.bus, topic))[0]!;
  const next = await new Promise<number>((resolve) => {
    void stores.bus.join('group', topic, {
      assigned: async () => {},
      async batch(_partition, records) {
        resolve(records[0]!.offset);
      },
    });
  });
  expect(next).toBe(first.offset);
});

test('the file shrinks when what filled it is gone', async () => {
  const topic = await makeTopic(stores.bus, 'filling', 1, { retentionMs: HOUR, retentionBytes: 100_000_000 });
  const size = (): number => statSync(join(data.folder, 'carillon.db')).size;
  for (let i = 0; i < 60; i += 1) await send(topic, [{ partition: 0, key: `${i}`, value: new Uint8Array(1_000_000) }]);
  await clock.advance(2 * HOUR);
  await stores.sweep();
  await stores.close();
  expect(size()).toBeLessThan(20_000_000);
  stores = openIn(data.folder);
  expect(await stores.bus.offsets(topic)).toEqual([{ first: 60, end: 60 }]);
});

test('the sweep runs by itself', async () => {
  const topic = await makeTopic(stores.bus, 'itself', 1, { retentionMs: 1_000 });
  await send(topic, numbered(0, 'v', 5));
  await clock.advance(9_999);
  expect(await firstOf(topic)).toBe(0);
  await clock.advance(1);
  expect(await firstOf(topic)).toBe(5);
});

test('a compacted topic holds one record per key, and its tombstones go after a day', async () => {
  const topic = await makeTopic(stores.bus, 'compact', 1, { compacted: true });
  for (let i = 0; i < 50; i += 1) await send(topic, numbered(0, `round-${i}`, 20));
  await send(topic, [message(0, 'key-3', null)]);
  expect(await readAll(stores.bus, topic)).toHaveLength(20);
  await clock.advance(24 * HOUR);
  await stores.sweep();
  expect(await readAll(stores.bus, topic)).toHaveLength(20);
  await clock.advance(1);
  await stores.sweep();
  const left = await readAll(stores.bus, topic);
  expect(left).toHaveLength(19);
  expect(left.every((record) => record.value !== null)).toBe(true);
  await send(topic, [message(0, 'key-3', 'again')]);
  expect(await readAll(stores.bus, topic)).toHaveLength(20);
});
