import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { openSqlite } from '../../../src/adapters/sqlite/stores.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import type { Delivery, Job } from '../../../src/core/job.ts';
import { encodeRecord, recordOf } from '../../../src/core/record.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { startWorker } from '../../../trigger-worker/worker.ts';
import { Told } from '../engine/world.ts';

const THREAD_STORES = new URL('./thread-stores.ts', import.meta.url).href;
const clock = systemClock();
const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openFile(): Promise<{ stores: Stores; told: Told; folder: string }> {
  mkdirSync('.servers', { recursive: true });
  const folder = mkdtempSync(join('.servers', 'worker-'));
  const told = new Told();
  const stores = openSqlite({ folder, clock }, told);
  cleanups.push(async () => {
    await stores.close();
    rmSync(folder, { recursive: true });
  });
  const { bus, catalog, shards, leases } = stores;
  await bus.ensureTopics([
    { name: TOPICS.fast, partitions: 4 },
    { name: TOPICS.progress, partitions: 4, compacted: true },
    { name: TOPICS.cursors, partitions: 4, compacted: true },
    { name: TOPICS.answers, partitions: 1 },
    { name: 't', partitions: 1 },
  ]);
  const delivery: Delivery = 'exactly-once';
  await catalog.createCluster({
    name: 'c',
    topic: 't',
    partitions: 1,
    envelope: 'cloudevents',
    delivery,
    createdMs: 0,
  });
  const load = { jobs: 0, nextNumber: 1, triggersPerSecond: 0, saturated: false };
  await shards.create([0, 1].map((slot) => ({ id: slot, delivery, slot, state: 'new' as const, ...load })));
  await leases.createSlots([0, 1].map((slot) => ({ delivery, slot })));
  return { stores, told, folder };
}

test('two wheel threads fire the slots of one file, each trigger once and on time, and stop cleanly', async () => {
  const { stores, told, folder } = await openFile();
  const startMs = clock.wallMs();
  const jobs = 40;
  for (let number = 1; number <= jobs; number += 1) {
    const shard = number % 2;
    // Both stores have it: what the trigger store alone has is taken for left over.
    const job: Job = {
      cluster: 'c',
      key: `j${number}`,
      version: 1,
      state: 'enabled',
      shard,
      number,
      createdMs: startMs,
      updatedMs: startMs,
      // The time of the anchor itself is before it.
      cutMs: startMs + number,
      schedule: { kind: 'rate', everyMs: 100, anchorMs: startMs + number },
      bounds: { endMs: startMs + 3_000 },
      misfire: { mode: 'all' },
      payload: '{}',
      contentType: 'application/json',
      position: { partition: 0, offset: number },
      lastChange: { id: `r${number}`, result: 'created' },
    };
    await stores.jobs.insertMany([job]);
    const record = encodeRecord(recordOf(job));
    await stores.triggers.add(shard, [{ number, version: 1, score: startMs + number + 100, record }]);
  }
  const installation = { id: 'i', slotsPerSet: 2 };
  const threadStores = { module: THREAD_STORES, config: { folder } };
  const place = { host: 'here', pid: process.pid };
  const worker = startWorker(
    { stores, clock, telemetry: told, installation },
    { ...place, wheels: 2, misfireAfterMs: 10_000, clockOffsetMs: 0, threadStores },
  );
  await worker.start();
  cleanups.push(() => worker.stop());
  const [session] = await stores.leases.sessions();
  expect(session!.wheels).toBe(2);
  for (const lease of await stores.leases.leases()) await stores.leases.assign(lease, session!.incarnation);

  const reader = await stores.bus.reader('t', 0, 'first');
  const times = new Map<string, number[]>();
  // Each has the times 100, 200 ... 2,900 ms after its anchor within the 3 s.
  const expected = jobs * 29;
  let seen = 0;
  while (seen < expected) {
    for (const { headers, timestampMs } of await reader.read(5_000)) {
      const at = Date.parse(headers['ce_time']!);
      expect(timestampMs).toBeGreaterThanOrEqual(at);
      const key = headers['ce_subject']!;
      times.set(key, [...(times.get(key) ?? []), at]);
      seen += 1;
    }
  }
  for (let number = 1; number <= jobs; number += 1) {
    expect(times.get(`j${number}`)).toEqual(Array.from({ length: 29 }, (_, i) => startMs + number + (i + 1) * 100));
  }
  await worker.stop();
  expect(told.of('takeovers_total')).toBe(2);
  expect((await stores.leases.leases()).every(({ owner }) => owner === null)).toBe(true);
  expect(told.events.filter(({ level }) => level === 'error')).toEqual([]);
});
