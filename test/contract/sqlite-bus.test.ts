import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { busContract } from './bus.contract.ts';
import { makeTopic, sendAll } from './bus-reading.ts';
import { dataFolder, openIn } from './sqlite-folder.ts';

busContract('sqlite', async () => {
  const { folder, remove } = dataFolder();
  let stores = openIn(folder);
  return {
    bus: stores.bus,
    unique: (name) => name,
    another: async () => {
      const other = openIn(folder, { lock: 'held' });
      return { ...other.bus, close: () => other.close() };
    },
    reopen: async () => {
      await stores.close();
      stores = openIn(folder);
      return stores.bus;
    },
    close: async () => {
      await stores.close();
      remove();
    },
  };
});

test('one read is bounded in bytes as well, and leaves no snapshot behind that would hold up the write-ahead log', async () => {
  const { folder, remove } = dataFolder();
  const stores = openIn(folder);
  const topic = await makeTopic(stores.bus, 'large');
  const value = new Uint8Array(900_000);
  for (let i = 0; i < 20; i += 1) await sendAll(stores.bus, topic, [{ partition: 0, key: `${i}`, value }]);
  const reader = await stores.bus.reader(topic, 0, 'first');
  const keys: (string | null)[] = [];
  while (!(await reader.caughtUp())) {
    const records = await reader.read(0);
    expect(records.length).toBeLessThanOrEqual(10);
    keys.push(...records.map((record) => record.key));
    const other = new DatabaseSync(join(folder, 'carillon.db'));
    expect(other.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()).toMatchObject({ busy: 0 });
    other.close();
  }
  expect(keys).toEqual(Array.from({ length: 20 }, (_, i) => `${i}`));
  await stores.close();
  remove();
});
