import { describe, expect, it } from 'vitest';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import { CarillonError, carillonError } from '../../../src/core/errors.ts';
import { type Answer, type Change, decodeMessage, encodeMessage } from '../../../src/core/messages.ts';
import { APPLIER_GROUP, TOPICS } from '../../../src/core/topics.ts';
import { Applier } from '../../../src/engine/apply.ts';
import type { BusLane, BusRecord } from '../../../src/ports/bus.ts';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import { readAll } from './applier-run.ts';
import { change, definition, NOON, put } from './samples.ts';

const PARTITIONS = 3;
const { signal } = new AbortController();
const holder = { generation: 1, member: 'm' };
const daily = put({ schedule: { kind: 'cron', expression: '0 3 * * *' } });

/** An applier of several partitions over stores in memory that note their calls. */
async function opened() {
  const clock = manualClock(NOON);
  const stores = memoryStores(clock);
  await stores.bus.ensureTopics([
    { name: TOPICS.changes, partitions: PARTITIONS },
    { name: TOPICS.answers, partitions: 1 },
    { name: TOPICS.fast, partitions: 2 },
  ]);
  const cluster = { name: 'team', topic: 't', partitions: 1, envelope: 'compact', createdMs: NOON } as const;
  await stores.catalog.createCluster({ ...cluster, delivery: 'at-least-once' });
  const shard = { delivery: 'at-least-once', state: 'open', jobs: 0, triggersPerSecond: 0, saturated: false } as const;
  await stores.shards.create([{ ...shard, id: 0, slot: 0, nextNumber: 1 }]);
  const calls: string[] = [];
  const noted = <T extends object>(name: string, store: T): T =>
    new Proxy(store, {
      get(target, method) {
        const value = Reflect.get(target, method, target);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          calls.push(`${name}.${String(method)}`);
          return value.apply(target, args);
        };
      },
    });
  const { jobs, catalog, shards, operations, triggers } = stores;
  const applier = new Applier({
    jobs: noted('jobs', jobs),
    catalog: noted('catalog', catalog),
    shards: noted('shards', shards),
    operations: noted('operations', operations),
    triggers: noted('triggers', triggers),
    clock,
    telemetry: silentTelemetry,
    slotsPerSet: 1,
    answersPartitions: 1,
  });
  const lanes: BusLane[] = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const lane = await stores.bus.lane(`lane-${partition}`);
    lanes.push(lane);
    applier.open(partition, noted(`lane-${partition}`, lane));
  }
  let offset = 0;
  const apply = (partition: number, ...changes: Change[]): Promise<void> => {
    const records = changes.map((one): BusRecord => {
      return { partition, offset: offset++, key: one.key, value: encodeMessage(one), headers: {}, timestampMs: NOON };
    });
    return applier.apply({ partition, records, signal, holder });
  };
  const take = (): string[] => calls.splice(0);
  const answers = async (): Promise<Answer[]> =>
    (await readAll(stores.bus, TOPICS.answers, 0)).map(({ value }) => decodeMessage<Answer>(value!)!);
  return { stores, clock, applier, lanes, apply, calls, take, answers };
}

/** What a batch came to: done, or the code of the error. */
async function codes(batches: readonly Promise<void>[]): Promise<string[]> {
  const settled = await Promise.allSettled(batches);
  return settled.map((one) => {
    if (one.status === 'fulfilled') return 'done';
    return one.reason instanceof CarillonError ? one.reason.code : String(one.reason);
  });
}

describe('a round of the applier', () => {
  it('asks each store once for the batches of all partitions that wait, and commits them together', async () => {
    const { apply, take, stores, lanes } = await opened();
    await Promise.all([0, 1, 2].map((partition) => apply(partition, change(daily, { key: `job-${partition}` }))));
    take();
    const offsets: unknown[] = [];
    const commit = lanes[0]!.commit.bind(lanes[0]);
    for (const lane of lanes) {
      lane.commit = (messages, given) => {
        offsets.push(given);
        return commit(messages, given);
      };
    }
    const changed = put({ schedule: { kind: 'rate', everyMs: 60_000 } });
    await Promise.all([0, 1, 2].map((partition) => apply(partition, change(changed, { key: `job-${partition}` }))));
    const calls = take();
    expect(calls.filter((call) => !call.startsWith('lane-'))).toEqual([
      'jobs.getMany',
      'jobs.replaceMany',
      'triggers.add',
    ]);
    expect(calls.filter((call) => call.endsWith('.commit'))).toHaveLength(1);
    expect(offsets).toEqual([
      [0, 1, 2].map((partition) => {
        return { group: APPLIER_GROUP, topic: TOPICS.changes, partition, next: 4 + partition, holder };
      }),
    ]);
    for (const key of ['job-0', 'job-1', 'job-2'])
      expect(await stores.jobs.get('team', key)).toMatchObject({ version: 2 });
  });

  it('stores the next one while one is committed, and never uses a lane for two commits at a time', async () => {
    const { apply, lanes, stores } = await opened();
    const { promise: go, resolve: end } = Promise.withResolvers<void>();
    let running = 0;
    for (const lane of lanes) {
      let busy = false;
      const commit = lane.commit.bind(lane);
      lane.commit = async (messages, offsets) => {
        expect(busy).toBe(false);
        busy = true;
        running += 1;
        await go;
        await commit(messages, offsets);
        busy = false;
      };
    }
    const first = apply(0, change(daily, { key: 'a' }));
    while (running === 0) await new Promise((resolve) => setImmediate(resolve));
    const second = apply(1, change(daily, { key: 'b' }));
    while (running < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(await stores.jobs.get('team', 'b')).toMatchObject({ version: 1 });
    end();
    await Promise.all([first, second]);
  });

  it.each([
    ['a document that the job store refuses', 'store'],
    ['a message that the bus refuses', 'commit'],
    ['a lane that somebody else has taken', 'fenced'],
  ])('%s stops its own partition only', async (_, where) => {
    const { apply, stores, lanes, applier } = await opened();
    const bad = change(daily, { key: 'bad' });
    if (where === 'store') {
      const insert = stores.jobs.insertMany.bind(stores.jobs);
      stores.jobs.insertMany = async (jobs) => {
        if (jobs.some(({ key }) => key === 'bad')) throw carillonError('internal', 'refused');
        return insert(jobs);
      };
    }
    for (const [partition, lane] of lanes.entries()) {
      const commit = lane.commit.bind(lane);
      lane.commit = async (messages, offsets) => {
        const holds = offsets!.some((offset) => offset.partition === 1);
        if (where === 'commit' && holds) throw carillonError('record-too-large', 'refused');
        if (where === 'fenced' && (partition === 1 || offsets!.length > 1)) throw carillonError('lane-fenced', 'taken');
        return commit(messages, offsets);
      };
    }
    const batches = [
      apply(0, change(daily, { key: 'first' })),
      apply(1, bad),
      apply(2, change(daily, { key: 'last' })),
    ];
    const code = { store: 'internal', commit: 'record-too-large', fenced: 'lane-fenced' }[where];
    expect(await codes(batches)).toEqual(['done', code, 'done']);
    expect([0, 1, 2].map((partition) => applier.has(partition))).toEqual([true, where !== 'fenced', true]);
    for (const key of ['first', 'last']) expect(await stores.jobs.get('team', key)).toMatchObject({ version: 1 });
  });
});

describe('a batch that puts many jobs', () => {
  const keys = Array.from({ length: 50 }, (_, i) => `k${i}`);
  const puts = (action = daily): Change[] => keys.map((key) => change(action, { key, replyTo: 'api' }));
  const results = (all: Answer[]): string[] => all.map(({ outcome }) => (outcome.ok ? outcome.result : outcome.code));

  it('inserts them unread, and reads only those that were there', async () => {
    const { apply, take, stores, answers } = await opened();
    await apply(0, change(daily, { key: 'k7' }));
    take();
    await apply(0, ...puts(), change({ kind: 'pause' }, { key: 'k3', replyTo: 'api' }));
    expect(take().filter((call) => call.startsWith('jobs.'))).toEqual(['jobs.insertMany', 'jobs.getMany']);
    const expected: string[] = keys.map((key) => (key === 'k7' ? 'unchanged' : 'created'));
    expected.splice(4, 0, 'updated');
    expect(results(await answers())).toEqual(expected);
    expect(await stores.jobs.get('team', 'k3')).toMatchObject({ version: 2, state: 'paused' });
  });

  it('reads first where most were there the last time, and takes no place for them', async () => {
    const { apply, take, stores, applier } = await opened();
    await apply(0, ...puts());
    await apply(0, ...puts());
    take();
    await apply(0, ...puts());
    expect(take().filter((call) => call.startsWith('jobs.'))).toEqual(['jobs.getMany']);
    const later = keys.map((key) => change(daily, { key: `new ${key}` }));
    await apply(0, ...later);
    expect(take().filter((call) => call.startsWith('jobs.'))).toEqual(['jobs.getMany', 'jobs.insertMany']);
    await apply(0, ...later.map((one) => ({ ...one, id: `${one.id} more`, key: `more ${one.key}` })));
    expect(take().filter((call) => call.startsWith('jobs.'))).toEqual(['jobs.insertMany']);
    for (const partition of [0, 1, 2]) await applier.close(partition);
    expect((await stores.shards.shards())[0]!.jobs).toBe(3 * keys.length);
    const numbers = (await stores.jobs.byShard(0, 0, 1_000)).map(({ number }) => number);
    expect(new Set(numbers).size).toBe(3 * keys.length);
  });

  it('decides what a new job may not be, and one that is there may, over the job that is there', async () => {
    const { apply, answers } = await opened();
    const passing = put({ schedule: { kind: 'once', atMs: NOON + 60_000 } });
    await apply(0, ...puts(passing));
    const atMs = NOON + 120_000;
    await apply(0, ...puts(passing).map((one) => ({ ...one, atMs })));
    expect(new Set(results(await answers()).slice(keys.length))).toEqual(new Set(['unchanged']));
  });
});

describe('an answer', () => {
  it('has the job as each change left it where that was wanted, and as large as an answer may be', async () => {
    const { apply, answers } = await opened();
    const asked = { key: 'job', replyTo: 'api', wantsJob: true } as const;
    const small = put({ schedule: { kind: 'rate', everyMs: 60_000 }, payload: '"small"' });
    const large = put({ schedule: { kind: 'rate', everyMs: 60_000 }, payload: JSON.stringify('x'.repeat(200_000)) });
    await apply(
      0,
      change(small, asked),
      change({ kind: 'pause' }, asked),
      change({ kind: 'pause' }, { key: 'job', replyTo: 'api' }),
      change({ kind: 'resume' }, { ...asked, ifVersion: 9 }),
      change(large, asked),
      change({ kind: 'delete' }, asked),
    );
    const jobs = (await answers()).map(({ job }) => job);
    const { schedule: _, ...rest } = definition({ payload: '"small"' });
    expect(jobs[0]).toMatchObject({ key: 'job', version: 1, state: 'enabled', ...rest });
    expect(jobs[0]).not.toHaveProperty('replay');
    expect(jobs[1]).toMatchObject({ version: 2, state: 'paused' });
    expect(jobs.slice(2)).toEqual([undefined, undefined, undefined, undefined]);
  });
});

describe('places of deleted jobs', () => {
  it('are counted together, some time after the first of them', async () => {
    const { apply, take, clock, stores } = await opened();
    const keys = ['a', 'b', 'c'];
    await apply(0, ...keys.map((key) => change(daily, { key })));
    const before = (await stores.shards.shards())[0]!.jobs;
    take();
    for (const key of keys) await apply(0, change({ kind: 'delete' }, { key }));
    expect(take()).not.toContain('shards.addJobs');
    await clock.advance(1_000);
    expect(take()).toEqual(['shards.addJobs']);
    expect((await stores.shards.shards())[0]!.jobs).toBe(before - 3);
  });
});
