import { expect, test } from 'vitest';
import { carillonError } from '../../../src/core/errors.ts';
import { LIMITS } from '../../../src/core/limits.ts';
import type { SlotRunner } from '../../../src/engine/firing/slot.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { once, T0, World } from './world.ts';

/** A world with three shards of one slot, and stores that count what the recorder asks. */
async function open() {
  const world = await World.open('at-least-once');
  await world.stores.shards.create([1, 2].map((id) => world.shard(id)));
  for (const id of [1, 2]) await world.makeWhole(id);
  const { jobs, triggers } = world.stores;
  const marked: number[] = [];
  let asked = 0;
  let away = false;
  const finished: Stores['triggers']['finished'] = async (shard, limit) => {
    asked += 1;
    return await triggers.finished(shard, limit);
  };
  const stores: Stores = {
    ...world.stores,
    jobs: {
      ...jobs,
      async finish(ended, nowMs) {
        if (away) throw carillonError('unavailable', 'no primary');
        marked.push(ended.length);
        return await jobs.finish(ended, nowMs);
      },
    },
    triggers: new Proxy(triggers, { get: (all, name) => (name === 'finished' ? finished : Reflect.get(all, name)) }),
  };
  const left = async (): Promise<number> => {
    let members = 0;
    for (const shard of [0, 1, 2]) members += (await triggers.count(shard)).members;
    return members;
  };
  const setAway = (to: boolean): void => {
    away = to;
  };
  return { world, stores, marked, asked: () => asked, left, setAway };
}

test('what an owner has finished itself is recorded with one call for all shards, and the store is not asked for it', async () => {
  const { world, stores, marked, asked, left } = await open();
  const runner = await world.adopted({ stores });
  await world.round(runner);
  expect(asked()).toBe(3);
  for (let i = 0; i < 30; i += 1) await world.put(`j${i}`, { schedule: once(T0 + 1_000), shard: i % 3 });
  for (let i = 0; i < 30; i += 1) {
    await world.clock.advance(50);
    await world.through(runner.readFast(0));
    while (runner.tick(world.nowMs) > 0) await runner.settled();
  }
  await world.through(runner.flushWriteBacks());
  expect(await runner.recordFinished()).toBe(30);
  expect(marked).toEqual([30]);
  expect(asked()).toBe(3);
  expect(await left()).toBe(0);
  for (let i = 0; i < 30; i += 1) expect((await world.stores.jobs.get('c', `j${i}`))?.state).toBe('finished');
});

test('what was not recorded, after a failure or by an owner that died, is found in the store', async () => {
  const { world, stores, left, setAway } = await open();
  const first = await world.adopted({ stores });
  for (let i = 0; i < 30; i += 1) await world.put(`j${i}`, { schedule: once(T0 + 1_000), shard: i % 3 });
  setAway(true);
  await fire(world, first);
  await expect(first.recordFinished()).rejects.toMatchObject({ code: 'unavailable' });
  expect(await left()).toBe(30);
  setAway(false);
  expect(await first.recordFinished()).toBe(30);
  expect(await left()).toBe(0);

  for (let i = 30; i < 60; i += 1) await world.put(`j${i}`, { schedule: once(T0 + 3_000), shard: i % 3 });
  for (let i = 0; i < 30; i += 1) {
    await world.clock.advance(50);
    await world.through(first.readFast(0));
    while (first.tick(world.nowMs) > 0) await first.settled();
  }
  await first.commitProgress(true);
  await world.through(first.flushWriteBacks());
  first.drop('killed');
  const second = await world.adopted({ stores });
  await world.through(second.flushWriteBacks());
  expect(await second.recordFinished()).toBe(30);
  expect(await left()).toBe(0);
});

test('an entry stays until its member is gone, and a version that came meanwhile keeps it', async () => {
  const { world, stores, left } = await open();
  const runner = await world.adopted({ stores });
  for (let i = 0; i < 3; i += 1) await world.put(`j${i}`, { schedule: once(T0 + 1_000), shard: i });
  for (let i = 0; i < 30; i += 1) {
    await world.clock.advance(50);
    await world.through(runner.readFast(0));
    while (runner.tick(world.nowMs) > 0) await runner.settled();
  }
  await world.through(runner.flushWriteBacks());
  expect(runner.entries).toBe(3);
  expect(await left()).toBe(3);
  await world.put('j0', { schedule: once(T0 + 2_000), shard: 0 });
  await world.through(runner.readFast(0));
  await runner.recordFinished();
  expect(runner.entries).toBe(1);
  expect(await left()).toBe(1);
  expect((await world.stores.jobs.get('c', 'j0'))?.state).toBe('enabled');
  for (let i = 0; i < 20; i += 1) {
    await world.clock.advance(50);
    while (runner.tick(world.nowMs) > 0) await runner.settled();
  }
  await world.through(runner.flushWriteBacks());
  expect(await runner.recordFinished()).toBe(1);
  expect(runner.entries).toBe(0);
  expect(await left()).toBe(0);
});

test('where the recorder is far behind, the store keeps what is finished, and entries leave', async () => {
  const { world, stores, asked, left, setAway } = await open();
  const first = await world.adopted({ stores });
  const jobs = LIMITS.endedMembers + 100;
  for (let i = 0; i < jobs; i += 1) await world.put(`j${i}`, { schedule: once(T0 + 1_000), shard: 0 });
  setAway(true);
  await fire(world, first);
  expect(first.entries).toBe(LIMITS.endedMembers);
  await first.commitProgress(true);
  first.drop('killed');
  setAway(false);
  const second = await world.adopted({ stores });
  const before = asked();
  let recorded = 0;
  for (let i = 0; i < 2; i += 1) {
    await world.through(second.flushWriteBacks());
    recorded += await second.recordFinished();
  }
  expect(recorded).toBe(jobs);
  expect(asked()).toBeGreaterThan(before);
  expect(await left()).toBe(0);
});

test('what is finished while the store is asked is not forgotten', async () => {
  const { world, stores, left } = await open();
  const { triggers } = stores;
  let meanwhile: () => Promise<unknown> = async () => null;
  const asking: Stores['triggers'] = new Proxy(triggers, {
    get: (all, name) =>
      name !== 'finished'
        ? Reflect.get(all, name)
        : async (shard: number, limit: number) => {
            const answer = await triggers.finished(shard, limit);
            await meanwhile();
            return answer;
          },
  });
  const runner = await world.adopted({ stores: { ...stores, triggers: asking } });
  await world.put('j', { schedule: once(T0 + 1_000), shard: 0 });
  for (let i = 0; i < 30; i += 1) {
    await world.clock.advance(50);
    await world.through(runner.readFast(0));
    while (runner.tick(world.nowMs) > 0) await runner.settled();
  }
  meanwhile = async () => await runner.flushWriteBacks();
  expect(await runner.recordFinished()).toBe(1);
  expect(await left()).toBe(0);
});

/** What is due within 1.5 s fires, and scores are written; nothing is recorded. */
async function fire(world: World, runner: SlotRunner): Promise<void> {
  for (let i = 0; i < 30; i += 1) {
    await world.clock.advance(50);
    await world.through(runner.readFast(0));
    while (runner.tick(world.nowMs) > 0) await runner.settled();
  }
  await world.through(runner.flushWriteBacks());
}
