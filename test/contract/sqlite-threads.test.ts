import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SqliteStores } from '../../src/adapters/sqlite/stores.ts';
import { message, numbered, readCount, sendAll, textOf } from './bus-reading.ts';
import { dataFolder, openIn } from './sqlite-folder.ts';

let data: ReturnType<typeof dataFolder>;
let stores: SqliteStores;
let thread: Worker;

beforeEach(async () => {
  data = dataFolder();
  stores = openIn(data.folder);
  await stores.bus.ensureTopics(['in', 'out'].map((name) => ({ name, partitions: 1 })));
  thread = new Worker(join(import.meta.dirname, 'sqlite-thread.ts'), { workerData: data.folder });
  await once(thread, 'message');
});
afterEach(async () => {
  const exited = once(thread, 'exit');
  thread.postMessage('stop');
  await exited;
  await stores.close();
  data.remove();
});

test('a commit of one thread wakes the readers of another', async () => {
  const reader = await stores.bus.reader('out', 0, 'first');
  for (let i = 0; i < 20; i += 1) {
    const answer = reader.read(20_000);
    await sendAll(stores.bus, 'in', [message(0, 'k', `${i}`)]);
    expect((await answer).map(textOf)).toEqual([`${i}`]);
  }
  await reader.close();
});

test('two threads write at the same time: each record once, in order', async () => {
  const reader = await stores.bus.reader('out', 0, 'first');
  const sends = Array.from({ length: 50 }, (_, i) => sendAll(stores.bus, 'in', numbered(0, `${i}`, 100)));
  const triggers = Array.from({ length: 100 }, (_, number) =>
    stores.triggers.add(1, [{ number, version: 1, score: 5, record: new Uint8Array(10) }]),
  );
  await Promise.all([...sends, ...triggers]);
  const texts = (await readCount(reader, 5_000)).map(textOf);
  expect(texts).toEqual(
    Array.from({ length: 50 }, (_, i) => Array.from({ length: 100 }, (_, j) => `${i}-${j}`)).flat(),
  );
  await reader.close();
});
