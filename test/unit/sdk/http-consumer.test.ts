import { afterEach, describe, expect, test } from 'vitest';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import { consumeBus } from '../../../src/sdk/bus-consumer.ts';
import type { ConsumerEvent, ConsumerOptions, RunningConsumer, TriggerHandler } from '../../../src/sdk/consumer.ts';
import type { Deduplicator } from '../../../src/sdk/deduplicator.ts';
import { consumeHttp } from '../../../src/sdk/http-consumer.ts';
import type { Trigger } from '../../../src/sdk/trigger.ts';
import { type RunningApi, START_MS, startApi } from './api.ts';

/** Answers a handler that collects, and a promise of the moment when it has `count`. */
function collector(count: number): { seen: Trigger[]; all: Promise<void>; handler: TriggerHandler } {
  const seen: Trigger[] = [];
  const all = Promise.withResolvers<void>();
  const handler = async (trigger: Trigger) => {
    seen.push(trigger);
    if (seen.length === count) all.resolve();
  };
  return { seen, all: all.promise, handler };
}

/** The caller's own table, as simple as one can be. */
function tableDeduplicator(): Deduplicator {
  const rows = new Map<string, 'held' | 'done'>();
  return {
    async claim(id) {
      const row = rows.get(id);
      if (row === undefined) rows.set(id, 'held');
      return row ?? 'claimed';
    },
    async confirm(id) {
      rows.set(id, 'done');
    },
    async release(id) {
      if (rows.get(id) === 'held') rows.delete(id);
    },
  };
}

const committed = async (api: RunningApi, group: string): Promise<number> => {
  const done = Promise.withResolvers<number>();
  const nexts: number[] = [];
  const member = await api.stores.bus.join(group, 'carillon.triggers.default', {
    async assigned({ next }) {
      nexts.push(next);
      if (nexts.length === 8) done.resolve(nexts.reduce((sum, one) => sum + one, 0));
    },
    async batch() {},
  });
  const sum = await done.promise;
  await member.close();
  return sum;
};

const transports: Record<
  string,
  (api: RunningApi, handler: TriggerHandler, options: ConsumerOptions) => Promise<RunningConsumer>
> = {
  'over HTTP': (api, handler, options) => consumeHttp({ url: api.url, handler, retries: 0, ...options }),
  'in process': (api, handler, options) => consumeBus(api.stores.bus, { handler, ...options }),
};

for (const [name, consume] of Object.entries(transports)) {
  describe(`trigger consumer ${name}`, () => {
    let api: RunningApi;
    const running: RunningConsumer[] = [];
    const start = async (handler: TriggerHandler, options: ConsumerOptions) => {
      const consumer = await consume(api, handler, options);
      running.push(consumer);
      return consumer;
    };
    afterEach(async () => {
      await Promise.allSettled(running.splice(0).map((consumer) => consumer.stop()));
      await api.close();
    });

    test('gets each trigger once, in the order of its job, and stores how far it came', async () => {
      api = await startApi();
      const ids = await api.publish(300, 10);
      const { seen, all, handler } = collector(300);
      const consumer = await start(handler, { group: 'g', concurrency: 7 });
      await all;
      await consumer.stop();
      await consumer.finished;
      expect(seen.map(({ id }) => id).sort()).toEqual(ids.sort());
      for (let job = 0; job < 10; job++) {
        const times = seen.filter(({ key }) => key === `job-${job}`).map(({ nominalMs }) => nominalMs);
        expect(times).toEqual([...times].sort((a, b) => a - b));
      }
      expect(seen[0]).toMatchObject({ cluster: 'default', topic: 'carillon.triggers.default', version: 1, attempt: 1 });
      expect(seen.find(({ key }) => key === 'job-3')!.payload()).toEqual({ job: 3 });
      expect(seen.find(({ key }) => key === 'job-3')!.nominal).toEqual(new Date(START_MS));
      expect(await committed(api, 'g')).toBe(300);
    });

    test('runs at most `concurrency` handlers, and never two of one job', async () => {
      api = await startApi();
      await api.publish(60, 6);
      let most = 0;
      const now = new Map<string, number>();
      const { all, handler } = collector(60);
      await start(
        async (trigger) => {
          now.set(trigger.key, (now.get(trigger.key) ?? 0) + 1);
          most = Math.max(
            most,
            [...now.values()].reduce((sum, one) => sum + one, 0),
          );
          expect(now.get(trigger.key)).toBe(1);
          await new Promise(setImmediate);
          now.set(trigger.key, 0);
          await handler(trigger);
        },
        { group: 'g', concurrency: 4, onError: () => 'stop', retry: { attempts: 1 } },
      );
      await all;
      expect(most).toBe(4);
    });

    test('stop waits for what runs and begins nothing more; the rest comes to the next', async () => {
      api = await startApi();
      const ids = await api.publish(5, 1);
      const entered = Promise.withResolvers<void>();
      const leave = Promise.withResolvers<void>();
      const first: string[] = [];
      const consumer = await start(
        async ({ id }) => {
          first.push(id);
          entered.resolve();
          await leave.promise;
        },
        { group: 'g' },
      );
      await entered.promise;
      const stopped = consumer.stop();
      leave.resolve();
      await stopped;
      const { seen, all, handler } = collector(4);
      await start(handler, { group: 'g' });
      await all;
      expect([...first, ...seen.map(({ id }) => id)]).toEqual(ids);
    });

    test('two members share the partitions; when one joins or leaves, nothing is handled twice', async () => {
      api = await startApi();
      const ids = await api.publish(200, 20);
      const handled: string[] = [];
      const half = Promise.withResolvers<void>();
      const all = Promise.withResolvers<void>();
      const handler = async ({ id }: Trigger) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        handled.push(id);
        if (handled.length === 60) half.resolve();
        if (handled.length === 400) all.resolve();
      };
      const first = await start(handler, { group: 'g', concurrency: 2 });
      await start(handler, { group: 'g', concurrency: 2 });
      await half.promise;
      await first.stop();
      ids.push(...(await api.publish(200, 20, 200)));
      await all.promise;
      expect(handled.sort()).toEqual(ids.sort());
    });

    test('a failing trigger: bounded attempts, then the policy', async () => {
      api = await startApi();
      await api.publish(2, 2);
      const attempts: string[] = [];
      const events: ConsumerEvent[] = [];
      const options = {
        group: 'g',
        retry: { attempts: 2, firstMs: 1 },
        onEvent: (event: ConsumerEvent) => events.push(event),
      };
      const consumer = await start(async ({ key, attempt }) => {
        attempts.push(`${key} ${attempt}`);
        throw new Error(`no to ${key}`);
      }, options);
      await expect(consumer.finished).rejects.toThrow(/no to job/);
      expect(events.filter(({ kind }) => kind === 'attempt-failed').length).toBeGreaterThanOrEqual(2);
      const both = Promise.withResolvers<void>();
      let skipped = 0;
      await start(
        async () => {
          throw new Error('no');
        },
        {
          ...options,
          onError: async () => 'skip' as const,
          onEvent: (event) => {
            if (event.kind === 'skipped' && ++skipped === 2) both.resolve();
          },
        },
      );
      await both.promise;
    });

    test('a record that is no trigger is told and passed over', async () => {
      api = await startApi();
      const producer = await api.stores.bus.producer();
      const message = { partition: 0, key: 'x', value: new Uint8Array(), headers: { id: 'not-an-id' } };
      await producer.send([{ topic: 'carillon.triggers.default', messages: [message] }]);
      const told = Promise.withResolvers<ConsumerEvent>();
      const consumer = await start(async () => {}, { group: 'g', onEvent: told.resolve });
      expect(await told.promise).toMatchObject({ kind: 'not-a-trigger', partition: 0, offset: 0 });
      await consumer.stop();
      expect(await committed(api, 'g')).toBe(1);
    });

    test('copies are dropped by execution id', async () => {
      api = await startApi();
      const ids = await api.publish(20, 4);
      await api.publish(20, 4);
      await api.publish(1, 1, 1_000);
      const { seen, all, handler } = collector(21);
      let copies = 0;
      const consumer = await start(handler, {
        group: 'g',
        deduplicator: tableDeduplicator(),
        onEvent: ({ kind }) => {
          if (kind === 'duplicated') copies += 1;
        },
      });
      await all;
      await consumer.stop();
      expect(new Set(seen.map(({ id }) => id)).size).toBe(21);
      expect(ids.every((id) => seen.some((trigger) => trigger.id === id))).toBe(true);
      const next = await start(handler, { group: 'g' });
      await next.stop();
      expect(copies).toBeLessThanOrEqual(20);
      expect(seen.length).toBe(21);
    });
  });
}

describe('the stream of triggers', () => {
  let api: RunningApi;
  afterEach(() => api.close());
  const get = (path: string, init?: RequestInit) => fetch(`${api.url}/v1/clusters/${path}`, init);

  test('refusals', async () => {
    api = await startApi({ apiKey: 'secret' });
    expect((await get('default/triggers?group=g')).status).toBe(401);
    const headers = { authorization: 'Bearer secret' };
    const refused = async (path: string, init: RequestInit = {}) => {
      const response = await get(path, { ...init, headers: { ...headers, ...init.headers } });
      return `${response.status} ${((await response.json()) as { code: string; field?: string }).field}`;
    };
    expect(await refused('none/triggers?group=g')).toBe('404 cluster');
    expect(await refused('default/triggers?group=carillon.appliers')).toBe('400 group');
    expect(await refused('default/triggers?group=a%20b')).toBe('400 group');
    expect(await refused('default/triggers?group=g&from=end')).toBe('400 from');
    expect(await refused('default/triggers?from=middle')).toBe('400 from');
    const post = (body: unknown) =>
      refused('default/triggers/commit', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    expect(await post({ session: 'none' })).toBe('409 session');
    expect(await post({ session: 's', offsets: [{ partition: -1, next: 0 }] })).toBe('400 offsets[0].partition');
    expect(await post({ session: 's', offset: 1 })).toBe('400 offset');
  });

  test('without a group it reads all partitions from the end or the first, and stores nothing', async () => {
    api = await startApi();
    await api.publish(40, 20);
    const response = await get('default/triggers?from=first');
    expect(response.headers.get('content-type')).toBe('application/x-ndjson');
    let text = '';
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (text.split('\n').length === 42) break;
    }
    const [opened, ...lines] = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(opened).toEqual({ session: null, topic: 'carillon.triggers.default', partitions: 8 });
    expect(lines).toHaveLength(40);
    expect(lines.find(({ key }) => key === 'job-7')).toMatchObject({
      payload: '{"job":7}',
      headers: { ce_subject: 'job-7' },
    });
    expect(await committed(api, 'g')).toBe(0);
  });

  test('a client that commits nothing gets a bounded number', async () => {
    api = await startApi();
    for (let from = 0; from < 6_000; from += 1_000) await api.publish(1_000, 100, from);
    const response = await get('default/triggers?group=g');
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const read = async (lines: number) => {
      while (text.split('\n').length - 1 < lines) text += (await reader.read()).value;
    };
    await read(5_001);
    const more = reader.read();
    // Many turns of the event loop, in each of which the server could write if it wanted to.
    const turns = async () => {
      for (let turn = 0; turn < 2_000; turn++) await new Promise(setImmediate);
      return 'nothing';
    };
    const waited = await Promise.race([more, turns()]);
    expect(waited).toBe('nothing');
    const lines = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { session: string; partition: number; offset: number });
    const { session } = lines[0]!;
    const { partition, offset } = lines[1]!;
    const commit = await get('default/triggers/commit', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ session, offsets: [{ partition, next: offset + 1 }] }),
    });
    expect(commit.status).toBe(204);
    text += (await more).value;
    await read(5_002);
    expect(text.trim().split('\n')).toHaveLength(5_002);
    await reader.cancel();
  });

  test('a consumer goes on after the API was away', async () => {
    const clock = systemClock();
    const stores = memoryStores(clock);
    api = await startApi({ stores });
    const port = Number(new URL(api.url).port);
    await api.publish(3, 3);
    const before = collector(3);
    const after = collector(2);
    let handler = before.handler;
    const away = Promise.withResolvers<void>();
    const consumer = await consumeHttp({
      url: api.url,
      group: 'g',
      retries: 0,
      handler: (trigger) => handler(trigger),
      deduplicator: tableDeduplicator(),
      onEvent: ({ kind }) => {
        if (kind === 'disconnected') away.resolve();
      },
    });
    await before.all;
    handler = after.handler;
    await api.close();
    await away.promise;
    api = await startApi({ stores, port });
    await api.publish(2, 2, 100);
    await after.all;
    await consumer.stop();
    expect(after.seen.map(({ key }) => key).sort()).toEqual(['job-0', 'job-1']);
    await api.close();
    await stores.close();
    api = await startApi();
  });
});
