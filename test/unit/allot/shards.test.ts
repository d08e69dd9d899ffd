import { describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/core/limits.ts';
import type { Shard } from '../../../src/ports/shard-store.ts';
import { sampleJob, sampleShard } from '../../contract/samples.ts';
import { installation } from './installation.ts';

async function running(workers = 1) {
  const all = installation();
  await all.manager();
  const made = [];
  for (let n = 0; n < workers; n++) made.push(await all.worker(`W${n}`));
  const shards = (): Promise<Shard[]> => all.stores.shards.shards();
  await all.until(async () => (await shards()).filter(({ state }) => state === 'open').length === 2, 2_000);
  return {
    ...all,
    workers: made,
    shards,
    place: (jobs: number) => all.stores.shards.takePlaces('at-least-once', jobs, LIMITS.shardJobs),
  };
}

const shardOf = (id: number, more: Partial<Shard> = {}): Shard =>
  sampleShard(id, { delivery: 'at-least-once', ...more });

describe('manager: shards', () => {
  it('makes two at the first start, in slots of their own, which the owners open, and no more while they are idle', async () => {
    const { shards, clock } = await running();
    expect(new Set((await shards()).map(({ slot }) => slot)).size).toBe(2);
    await clock.advance(10_000);
    expect(await shards()).toHaveLength(2);
  });

  it('makes none without leading, and none twice with two managers', async () => {
    const { shards, manager, clock } = await running();
    await manager();
    await manager();
    await clock.advance(5_000);
    expect(await shards()).toHaveLength(2);
  });

  it.each([20_000, 60_000])(
    'is ahead of a bulk of 500,000 jobs at %i/s: no block is ever refused',
    async (perSecond) => {
      const { clock, place } = await running(2);
      let left = 500_000;
      let refused = 0;
      while (left > 0) {
        for (let batch = perSecond / 20; batch > 0; ) {
          const block = await place(Math.min(1_000, batch));
          if (block === null) {
            refused += 1;
            break;
          }
          batch -= block.count;
          left -= block.count;
        }
        await clock.advance(50);
      }
      expect(refused).toBe(0);
    },
  );

  it('never has two shards of one number, and each belongs to a slot of its set', async () => {
    const { clock, place, shards } = await running();
    for (let n = 0; n < 200; n++) {
      await place(1_000);
      if (n % 10 === 0) await clock.advance(100);
    }
    await clock.advance(1_000);
    const all = await shards();
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    expect(all.every(({ slot }) => slot >= 0 && slot < 8)).toBe(true);
    const bySlot = Array.from({ length: 8 }, (_, slot) => all.filter((shard) => shard.slot === slot).length);
    expect(Math.max(...bySlot) - Math.min(...bySlot)).toBeLessThanOrEqual(1);
  });

  it('a worker whose wheels lag gets no new jobs until they have kept up again', async () => {
    const { clock, stores, place, shards, workers, owners } = await running(2);
    await stores.shards.create(Array.from({ length: 6 }, (_, n) => shardOf(100 + n, { slot: n + 2 })));
    workers[0]!.wheelLagMs = 500;
    await clock.advance(1_500);
    const lagging = (await owners())['W0'] ?? [];
    expect(
      (await shards())
        .filter(({ saturated }) => saturated)
        .map(({ slot }) => `a${slot}`)
        .sort(),
    ).toEqual([...lagging].sort());
    for (let n = 0; n < 20; n++) {
      const block = await place(10);
      expect(lagging).not.toContain(`a${block?.slot}`);
    }
    workers[0]!.wheelLagMs = 50;
    await clock.advance(1_500);
    expect((await shards()).some(({ saturated }) => saturated)).toBe(true);
    workers[0]!.wheelLagMs = 0;
    await clock.advance(1_500);
    expect((await shards()).filter(({ saturated }) => saturated)).toEqual([]);
  });

  it('makes no shards for a single worker that lags: jobs must wait', async () => {
    const { clock, shards, workers, place } = await running();
    workers[0]!.wheelLagMs = 500;
    await clock.advance(10_000);
    expect(await shards()).toHaveLength(2);
    expect(await place(1)).toBeNull();
  });

  it('shares the rate of a slot among its shards by jobs, and saturates those with too many triggers', async () => {
    const { clock, stores, shards, workers } = await running();
    await stores.shards.create([shardOf(100, { slot: 3, jobs: 1_000 }), shardOf(101, { slot: 3, jobs: 3_000 })]);
    workers[0]!.rates = { a3: 40_000 };
    await clock.advance(30_000);
    const loads = (await shards()).filter(({ slot, jobs }) => slot === 3 && jobs > 0);
    expect(loads.map(({ triggersPerSecond, saturated }) => [Math.round(triggersPerSecond / 1_000), saturated])).toEqual(
      [
        [10, false],
        [30, true],
      ],
    );
  });

  it('drains shards when far too many are nearly empty, closes the empty ones, and keeps eight', async () => {
    const { clock, stores, shards } = await running();
    await stores.shards.create(Array.from({ length: 6 }, (_, n) => shardOf(50 + n, { slot: n % 8, state: 'open' })));
    await stores.shards.create(Array.from({ length: 12 }, (_, n) => shardOf(100 + n, { slot: n % 8, jobs: 5 })));
    await stores.jobs.insertMany(Array.from({ length: 12 }, (_, n) => sampleJob(`j${n}`, { shard: 100 + n })));
    const states = async (): Promise<string[]> => (await shards()).map(({ state }) => state).sort();
    await clock.advance(61_000);
    // The eight that are empty go first, and are closed at once; four of those with jobs drain.
    expect(await states()).toEqual([
      ...Array(8).fill('closed'),
      ...Array(4).fill('draining'),
      ...Array(8).fill('open'),
    ]);
    await clock.advance(200_000);
    expect((await states()).filter((state) => state === 'open')).toHaveLength(8);
  });

  it('does not close a draining shard while its count or the job store knows of a job in it', async () => {
    const { clock, stores, shards } = await running();
    await stores.jobs.insertMany([sampleJob('kept', { shard: 101 })]);
    await stores.shards.create([
      shardOf(100, { slot: 0, state: 'draining', jobs: 1 }),
      shardOf(101, { slot: 0, state: 'draining', jobs: 0 }),
      shardOf(102, { slot: 0, state: 'draining', jobs: 0 }),
    ]);
    await clock.advance(1_000);
    const states = (await shards()).filter(({ id }) => id >= 100).map(({ state }) => state);
    expect(states).toEqual(['draining', 'draining', 'closed']);
  });

  it('closes a draining shard whose count a dead applier left too high, when nothing has changed for a minute', async () => {
    const { clock, stores, shards } = await running();
    await stores.shards.create([shardOf(100, { slot: 0, state: 'draining', jobs: 37 })]);
    const state = async () => (await shards()).find(({ id }) => id === 100)?.state;
    await clock.advance(50_000);
    expect(await state()).toBe('draining');
    // An applier that lives gives some back: the minute begins anew.
    await stores.shards.addJobs([{ shard: 100, jobs: -5 }]);
    await clock.advance(55_000);
    expect(await state()).toBe('draining');
    await clock.advance(30_000);
    expect(await state()).toBe('closed');
  });

  it('drains again when an applier that was frozen puts a job into a shard that was closed against its count', async () => {
    const { clock, stores, shards } = await running();
    await stores.shards.create([shardOf(100, { slot: 0, state: 'draining', jobs: 37 })]);
    const state = async () => (await shards()).find(({ id }) => id === 100)?.state;
    await clock.advance(90_000);
    expect(await state()).toBe('closed');
    await stores.jobs.insertMany([sampleJob('late', { shard: 100 })]);
    await clock.advance(30_000);
    expect(await state()).toBe('draining');
  });
});
