import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import { type ApiUnderTest, CRON, JOBS, jobUrl, openApi } from './api.ts';

/** What a single change may ask of the stores behind MongoDB: a read of the job and a write of it. */
const calls: string[] = [];
let api: ApiUnderTest;

beforeAll(async () => {
  const stores = memoryStores(systemClock());
  for (const name of ['jobs', 'catalog', 'shards', 'operations'] as const) {
    const store = stores[name] as unknown as Record<string, (...args: unknown[]) => unknown>;
    for (const [method, call] of Object.entries(store)) {
      store[method] = (...args) => {
        calls.push(`${name}.${method}`);
        return call.apply(store, args);
      };
    }
  }
  api = await openApi({ stores });
  for (const key of ['a', 'b']) await api.call('PUT', jobUrl(key), { schedule: CRON });
  // Which slot a shard is in is read once.
  await api.call('POST', `${jobUrl('b')}/fire`);
});
beforeEach(() => {
  calls.length = 0;
});
afterAll(() => api.close());

const rate = { kind: 'rate', everyMs: 5_000, anchor: '2027-01-01T00:00:00Z' };

it.each([
  ['PUT', jobUrl('a'), { schedule: CRON, payload: 2 }, 200],
  ['PATCH', jobUrl('a'), { payload: { changed: 1 } }, 200],
  ['PATCH', jobUrl('a'), { schedule: rate }, 200],
  ['POST', `${jobUrl('a')}/pause`, undefined, 200],
  ['POST', `${jobUrl('a')}/resume`, undefined, 200],
  ['POST', `${jobUrl('a')}/fire`, undefined, 200],
  ['POST', `${jobUrl('a')}/terminate`, undefined, 200],
  ['DELETE', jobUrl('b'), undefined, 204],
])('%s %s %j costs one read and one write', async (method, url, body, status) => {
  expect((await api.call(method, url, body)).status).toBe(status);
  expect(calls).toEqual(['jobs.getMany', 'jobs.replaceMany']);
});

it('a payload that is too large for the bus is not read either: the applier of this process answers with it', async () => {
  const payload = 'x'.repeat(200_000);
  const answer = await api.call('PUT', jobUrl('large'), { schedule: CRON, payload });
  expect(answer).toMatchObject({ status: 201, headers: { etag: '"1"' }, json: { payload, version: 1 } });
  expect(calls.filter((call) => call === 'jobs.get')).toEqual([]);
});

it('a job that is to be new is written without a read', async () => {
  const answer = await api.call('POST', JOBS, { key: 'new', schedule: CRON });
  expect(answer).toMatchObject({ status: 201 });
  expect(calls.filter((call) => call.startsWith('jobs.'))).toEqual(['jobs.insertMany']);
});
