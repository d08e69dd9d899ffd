import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { triggerTopic } from '../../src/core/topics.ts';
import { type Embedded, openEmbedded } from '../../src/embedded/embedded.ts';
import type { BusReader, BusRecord } from '../../src/ports/bus.ts';
import { createLog } from '../../src/runtime/log.ts';

/** The whole product in one process: changes by HTTP while jobs fire, judged by what stands in the trigger topic. */
const TOPIC = triggerTopic('default');
const folder = mkdtempSync(join('.servers', 'firing-'));
let product: Embedded;
let jobs: string;
beforeAll(async () => {
  const bounds = { misfireAfterMs: 10_000, retentionMs: 600_000, retentionBytes: 2 ** 28 };
  product = await openEmbedded(
    { folder, listen: { host: '127.0.0.1', port: 0 }, apiKey: null, wheels: 1, ...bounds },
    createLog({ level: 'silent' }),
  );
  await product.start();
  jobs = `http://127.0.0.1:${product.address!.port}/v1/clusters/default/jobs`;
  await call('PUT', 'beat', every(100));
});
afterAll(async () => {
  await product.stop();
  rmSync(folder, { recursive: true, force: true });
});

const every = (everyMs: number) => ({ schedule: { kind: 'rate', everyMs } });

async function call(method: string, path: string, body?: object) {
  const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(`${jobs}/${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, json: text === '' ? null : JSON.parse(text) };
}

/** Offsets behind the last committed trigger. */
async function ends(): Promise<number[]> {
  return (await product.stores.bus.offsets(TOPIC)).map(({ end }) => end);
}

/** Triggers of a job from these offsets on, read until the beat job has fired so often since. */
async function triggers(key: string, from: readonly number[], beats: number): Promise<BusRecord[]> {
  const readers: BusReader[] = [];
  for (const [partition, offset] of from.entries())
    readers.push(await product.stores.bus.reader(TOPIC, partition, offset));
  const found: BusRecord[] = [];
  for (let seen = 0; seen < beats; ) {
    for (const reader of readers) {
      for (const record of await reader.read(10)) {
        if (record.key === key) found.push(record);
        if (record.key === 'beat') seen += 1;
      }
    }
  }
  for (const reader of readers) await reader.close();
  return found;
}

async function fired(key: string, from: readonly number[]): Promise<void> {
  while ((await triggers(key, from, 1)).length === 0);
}

const versionOf = ({ headers }: BusRecord) => Number(headers['ce_jobversion']);

describe('after the answer to a change', () => {
  it('O-DL-09: no trigger of a deleted job comes any more, and it does not come back', async () => {
    for (let round = 0; round < 10; round++) {
      const start = await ends();
      expect((await call('PUT', 'gone', every(100))).status).toBe(201);
      await fired('gone', start);
      expect((await call('DELETE', 'gone')).status).toBe(204);
      const answered = await ends();
      expect(await triggers('gone', answered, 3)).toEqual([]);
      expect((await call('GET', 'gone')).status).toBe(404);
    }
  });

  it('O-DL-06: no trigger of an older version comes any more, and the spacing is that of the last one', async () => {
    await call('PUT', 'moved', every(100));
    for (const everyMs of [800, 400, 900, 200, 300, 100, 150, 100]) {
      const { json } = await call('PUT', 'moved', every(everyMs));
      const answered = await ends();
      const later = await triggers('moved', answered, 4);
      expect(later.filter((record) => versionOf(record) < json.version)).toEqual([]);
    }
    const last = await triggers('moved', await ends(), 12);
    const times = last.map(({ headers }) => Date.parse(headers['ce_time']!));
    const gaps = times.slice(1).map((time, index) => time - times[index]!);
    expect(new Set(gaps)).toEqual(new Set([100]));
    await call('DELETE', 'moved');
  });

  it('O-DL-05: deleted and made again within one slot it fires at its next one', async () => {
    await call('PUT', 'phoenix', every(300));
    for (let round = 0; round < 3; round++) {
      await call('DELETE', 'phoenix');
      const start = await ends();
      const { json } = await call('PUT', 'phoenix', every(300));
      await fired('phoenix', start);
      const [first] = await triggers('phoenix', start, 1);
      expect(Date.parse(first!.headers['ce_time']!)).toBe(Date.parse(json.schedule.anchor));
    }
    await call('DELETE', 'phoenix');
  });

  it('O-DL-04: upserts without end neither move the grid nor add fires', async () => {
    const { json } = await call('PUT', 'upsert', every(500));
    const start = await ends();
    for (let round = 0; round < 20; round++) {
      const answers = await Promise.all(Array.from({ length: 10 }, () => call('PUT', 'upsert', every(500))));
      for (const answer of answers) expect(answer.json).toMatchObject({ result: 'unchanged', version: 1 });
    }
    const times = (await triggers('upsert', start, 20)).map(({ headers }) => Date.parse(headers['ce_time']!));
    expect(times.length).toBeGreaterThan(1);
    for (const [index, time] of times.entries()) expect(time).toBe(Date.parse(json.schedule.anchor) + index * 500);
    await call('DELETE', 'upsert');
  });

  it('a run by hand comes at once with the payload of now, paused or not, and once for one request', async () => {
    await call('PUT', 'hand', {
      schedule: { kind: 'cron', expression: '0 0 1 1 *' },
      payload: { n: 1 },
      state: 'paused',
    });
    const start = await ends();
    const { json } = await call('POST', 'hand/fire');
    const found = await triggers('hand', start, 3);
    expect(found.map(({ headers, value }) => [headers['ce_id'], Buffer.from(value!).toString()])).toEqual([
      [json.id, '{"n":1}'],
    ]);
  });
});
