import { afterEach, describe, expect, it } from 'vitest';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import { type Change, decodeMessage, encodeMessage } from '../../../src/core/messages.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import type { BusProducer } from '../../../src/ports/bus.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { readAll } from '../change/applier-run.ts';
import { type ApiSetup, type ApiUnderTest, CRON, jobUrl, openApi } from './api.ts';

const open: ApiUnderTest[] = [];
async function opened(setup: ApiSetup): Promise<ApiUnderTest> {
  const api = await openApi(setup);
  open.push(api);
  return api;
}
afterEach(async () => {
  for (const api of open.splice(0)) await api.close();
});

/** Stores whose producers send by this function. */
function sending(
  send: (producer: BusProducer, batch: Parameters<BusProducer['send']>[0]) => ReturnType<BusProducer['send']>,
): Stores {
  const stores = memoryStores(systemClock());
  const producer = stores.bus.producer.bind(stores.bus);
  stores.bus.producer = async () => {
    const real = await producer();
    return { send: (batch) => send(real, batch), close: () => real.close() };
  };
  return stores;
}

const put = (api: ApiUnderTest, key = 'x') => api.call('PUT', jobUrl(key), { schedule: CRON });

describe('a single write', () => {
  it('is 202 with Location when it is in the topic and no answer comes', async () => {
    const api = await opened({ applier: false, answerWaitMs: 30 });
    const answer = await put(api);
    expect(answer).toMatchObject({
      status: 202,
      headers: { location: jobUrl('x') },
      json: { result: 'accepted', key: 'x' },
    });
    expect((await api.counts()).offsets).toBe(1);
    expect((await api.call('DELETE', jobUrl('x'))).status).toBe(202);
  });

  it('is 503 with nothing done when the bus does not take it', async () => {
    let sent = 0;
    const stores = sending(() => {
      sent += 1;
      return new Promise(() => {});
    });
    const api = await opened({ stores, answerWaitMs: 50 });
    const first = put(api, 'stuck');
    while (sent === 0) await new Promise((resolve) => setImmediate(resolve));
    const queued = await put(api, 'queued');
    expect(queued).toMatchObject({
      status: 503,
      json: { code: 'unavailable', detail: expect.stringContaining('nothing was done') },
      headers: { 'retry-after': '1' },
    });
    // Of this one the bus has not said anything, and the answer says so.
    expect((await first).json.detail).toContain('did not say');
    expect(await api.counts()).toMatchObject({ jobs: 0, offsets: 0 });
    open.pop();
  });

  it('is sent again with the same id when its outcome is unknown, and applied once', async () => {
    let calls = 0;
    const stores = sending(async (producer, batch) => {
      const failures = await producer.send(batch);
      calls += 1;
      if (calls === 1) throw new Error('the answer was lost');
      return failures;
    });
    const api = await opened({ stores });
    const answer = await put(api);
    expect(answer).toMatchObject({ status: 201, json: { version: 1 } });
    await put(api, 'y');
    const records = [
      ...(await readAll(stores.bus, TOPICS.changes, 0)),
      ...(await readAll(stores.bus, TOPICS.changes, 1)),
    ];
    const ids = records.map(({ value }) => decodeMessage<Change>(value!)).filter((change) => change!.key === 'x');
    expect(new Set(ids.map((change) => change!.id)).size).toBe(1);
    expect(await stores.jobs.get('default', 'x')).toMatchObject({ version: 1 });
  });

  it('is 503 when the topic refuses it for certain', async () => {
    const stores = sending(async (_, [batch]) => [
      { topic: TOPICS.changes, partition: batch!.messages[0]!.partition, code: 'record-too-large' },
    ]);
    const api = await opened({ stores });
    expect(await put(api)).toMatchObject({ status: 503, json: { code: 'unavailable' } });
  });

  it('is 429 when too many wait already', async () => {
    let go: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    let sent = 0;
    const stores = sending(async (producer, batch) => {
      sent += 1;
      await held;
      return producer.send(batch);
    });
    const api = await opened({ stores, queueMost: 3 });
    const first = put(api, 'k0');
    while (sent === 0) await new Promise((resolve) => setImmediate(resolve));
    const others = Array.from({ length: 5 }, (_, i) => put(api, `k${i + 1}`));
    const refused = await Promise.race(others);
    expect(refused).toMatchObject({ status: 429, json: { code: 'too-many-requests' } });
    go();
    const statuses = (await Promise.all([first, ...others])).map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(4);
    expect(statuses.filter((status) => status === 429)).toHaveLength(2);
  });

  it('waits for the owner when the change reached it, and no longer than it may', async () => {
    const api = await opened({ applier: false, answerWaitMs: 5_000 });
    const lane = await api.stores.bus.lane('test');
    /** Plays the applier and the owner. */
    const answer = async (from: 'applier' | 'owner', id: string, replyTo: string) => {
      const outcome = { ok: true, result: 'updated', version: 9, state: 'enabled' } as const;
      const value = encodeMessage({ v: 1, id, replyTo, from, ownerFollows: true, outcome });
      await lane.commit([{ topic: TOPICS.answers, messages: [{ partition: 0, key: replyTo, value }] }]);
    };
    for (const order of [['applier', 'owner'], ['owner', 'applier'], ['applier']] as const) {
      const before = await api.counts();
      const waiting = put(api, 'owned');
      while ((await api.counts()).offsets === before.offsets) await new Promise((resolve) => setImmediate(resolve));
      const records = [
        ...(await readAll(api.stores.bus, TOPICS.changes, 0)),
        ...(await readAll(api.stores.bus, TOPICS.changes, 1)),
      ];
      const change = records.map(({ value }) => decodeMessage<Change>(value!)!).at(-1)!;
      for (const from of order) await answer(from, change.id, change.replyTo!);
      expect(await waiting).toMatchObject({ status: 200, json: { version: 9 } });
    }
    await lane.close();
  });
});
