import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { message, readAll, sendAll, textOf } from './bus-reading.ts';
import { sampleJob } from './samples.ts';
import { dataFolder, openIn } from './sqlite-folder.ts';
import type { Said } from './sqlite-said.ts';

let data: ReturnType<typeof dataFolder>;
const children: ChildProcess[] = [];

beforeEach(() => {
  data = dataFolder();
});
afterEach(async () => {
  for (const child of children.splice(0)) await killed(child);
  data.remove();
});

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** Starts a process on the folder and reads what it says until `enough`. */
async function started(mode: 'hold' | 'commit', enough: (said: Said) => boolean) {
  const program = join(import.meta.dirname, 'sqlite-process.ts');
  const child = spawn(process.execPath, [program, data.folder, mode], { stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  const all: Said[] = [];
  const lines = createInterface({ input: child.stdout });
  const ended = once(lines, 'close');
  await new Promise<void>((resolve) => {
    lines.on('line', (line) => {
      all.push(JSON.parse(line) as Said);
      if (enough(all.at(-1)!)) resolve();
    });
    lines.on('close', resolve);
  });
  return { child, all, ended };
}

const said = (one: Said): boolean => 'opened' in one || 'refused' in one;

test('a second process is refused and told who has the folder; kill -9 frees it', async () => {
  const first = await started('hold', said);
  expect(first.all).toEqual([{ opened: first.child.pid }]);
  const second = await started('hold', said);
  expect(second.all).toMatchObject([{ refused: 'setup-refused' }]);
  const { message } = second.all[0] as { message: string };
  expect(message).toContain(data.folder);
  expect(message).toContain(`pid ${first.child.pid}`);
  await killed(first.child);
  const third = await started('hold', said);
  expect(third.all).toEqual([{ opened: third.child.pid }]);
});

test('a second opening in the same process is refused too, and does not free the lock', async () => {
  const stores = openIn(data.folder);
  expect(() => openIn(data.folder)).toThrow(expect.objectContaining({ code: 'setup-refused' }));
  const other = await started('hold', said);
  expect(other.all).toMatchObject([{ refused: 'setup-refused' }]);
  expect((other.all[0] as { message: string }).message).toContain(`pid ${process.pid}`);
  await stores.close();
  expect((await started('hold', said)).all).toMatchObject([{ opened: expect.any(Number) }]);
});

test('kill -9 loses nothing that was answered, and leaves nothing half done', async () => {
  const { child, all, ended } = await started('commit', (one) => 'committed' in one && one.committed >= 200);
  child.kill('SIGKILL');
  await ended;
  const last = Math.max(...all.map((one) => ('committed' in one ? one.committed : -1)));
  expect(last).toBeGreaterThanOrEqual(200);
  const stores = openIn(data.folder);
  const numbers = (await readAll(stores.bus, 'log')).map((record) => Number(textOf(record)));
  expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, i) => i));
  expect(numbers.length).toBeGreaterThan(last);
  // The trigger goes before the commit, so it may be one ahead.
  expect((await stores.triggers.count(1)).members - numbers.length).toBeOneOf([0, 1]);
  await stores.close();
});

test('a folder that a newer program wrote is refused, with the mend, and left as it is', async () => {
  await openIn(data.folder).close();
  const file = join(data.folder, 'carillon.db');
  const raw = new DatabaseSync(file);
  raw.exec('PRAGMA user_version = 99');
  raw.close();
  const before = readFileSync(file);
  expect(() => openIn(data.folder)).toThrow(/form 99 .* newer program/);
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(() => openIn(data.folder)).toThrow(expect.objectContaining({ code: 'setup-refused' }));
});

test('a folder of the form before blocks is brought to this one: each record with its offset, time and bytes', async () => {
  const stores = openIn(data.folder);
  await stores.bus.ensureTopics([
    { name: 'log', partitions: 2 },
    { name: 'kept', partitions: 1, compacted: true },
  ]);
  await sendAll(stores.bus, 'kept', [message(0, 'k', 'stays')]);
  await stores.close();
  const raw = new DatabaseSync(join(data.folder, 'carillon.db'));
  raw.exec('DROP TABLE blocks; PRAGMA user_version = 3');
  raw.exec(`UPDATE partitions SET first = 40, next = 2540 WHERE partition = 0 AND topic = 1`);
  const insert = raw.prepare('INSERT INTO messages VALUES (1, 0, ?, ?, ?, ?, ?)');
  const rows = Array.from({ length: 2_500 }, (_, i) => ({
    offset: 40 + i,
    key: i % 7 === 0 ? null : `clé-${i}`,
    value: i % 5 === 0 ? null : Buffer.from(`${'v'.repeat(i % 300)}${i}`),
    headers: i % 3 === 0 ? {} : { id: `${i}`, 'x-ü': 'y'.repeat(i % 90) },
    timestampMs: 1_700_000_000_000 + Math.floor(i / 100),
  }));
  for (const { offset, key, value, headers, timestampMs } of rows) {
    insert.run(offset, key, value, offset % 3 === 1 ? null : JSON.stringify(headers), timestampMs);
  }
  raw.close();

  const again = openIn(data.folder);
  const read = await readAll(again.bus, 'log');
  const shown = rows.map(({ value, ...row }) => ({ ...row, partition: 0, value: value?.toString() ?? null }));
  expect(read.map((one) => ({ ...one, value: textOf(one), headers: { ...one.headers } }))).toEqual(shown);
  expect(await readAll(again.bus, 'log', 0, 1_777)).toHaveLength(2_540 - 1_777);
  expect(await again.bus.offsets('log')).toEqual([
    { first: 40, end: 2_540 },
    { first: 0, end: 0 },
  ]);
  await sendAll(again.bus, 'log', [message(0, 'new', 'next')]);
  expect((await readAll(again.bus, 'log', 0, 2_539)).map(textOf)).toEqual([
    '2499'.padStart((2_499 % 300) + 4, 'v'),
    'next',
  ]);
  expect((await readAll(again.bus, 'kept')).map(textOf)).toEqual(['stays']);
  await again.close();
});

test('a file that is not ours is refused, not overwritten', async () => {
  const file = join(data.folder, 'carillon.db');
  writeFileSync(file, 'these are the notes of somebody else\n'.repeat(100));
  expect(() => openIn(data.folder)).toThrow(expect.objectContaining({ code: 'setup-refused' }));
  expect(readFileSync(file, 'utf8')).toMatch(/^these are the notes/);
});

test('after close everything says that it is not available', async () => {
  const stores = openIn(data.folder);
  const producer = await stores.bus.producer();
  await stores.close();
  await stores.close();
  await expect(stores.jobs.get('team', 'a')).rejects.toMatchObject({ code: 'unavailable' });
  await expect(stores.triggers.add(1, [])).rejects.toMatchObject({ code: 'unavailable' });
  await expect(producer.send([])).rejects.toMatchObject({ code: 'unavailable' });
});

test('a batch that fails half-way changes nothing', async () => {
  const stores = openIn(data.folder);
  const job = sampleJob('first', { number: 1 });
  const sameNumber = sampleJob('second', { number: 1 });
  await expect(stores.jobs.insertMany([job, sameNumber])).rejects.toThrow(/UNIQUE/);
  expect(await stores.jobs.get('team', 'first')).toBeNull();
  expect(await stores.jobs.insertMany([job])).toEqual([true]);
  await stores.close();
});

test('members and claims of a process that was killed do not hold up the next one', async () => {
  const stores = openIn(data.folder);
  await stores.bus.ensureTopics([{ name: 'log', partitions: 1 }]);
  await stores.close();
  const raw = new DatabaseSync(join(data.folder, 'carillon.db'));
  raw.exec(`INSERT INTO group_members (topic, consumers, member) VALUES ('log', 'group', 'dead')`);
  raw.exec(`INSERT INTO group_claims (topic, consumers, partition, member) VALUES ('log', 'group', 0, 'dead')`);
  raw.close();
  const again = openIn(data.folder);
  await new Promise<void>((resolve) => {
    void again.bus.join('group', 'log', { assigned: async () => resolve(), async batch() {} });
  });
  await again.close();
});
