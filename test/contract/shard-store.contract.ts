import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Shard, ShardStore } from '../../src/ports/shard-store.ts';
import { reopened, type StoreOpening } from './opening.ts';
import { sampleShard } from './samples.ts';

const byId = (shards: Shard[]): Shard[] => shards.sort((a, b) => a.id - b.id);

function shardStatements(opened: () => StoreOpening<ShardStore>): void {
  test('shards are made once; those that exist are left alone', async () => {
    const { store } = opened();
    expect(await store.shards()).toEqual([]);
    expect(await store.create([])).toBe(0);
    expect(await store.create([sampleShard(1), sampleShard(2, { state: 'new' })])).toBe(2);
    expect(await store.create([sampleShard(2, { slot: 3 }), sampleShard(3), sampleShard(1)])).toBe(1);
    expect(byId(await store.shards())).toEqual([sampleShard(1), sampleShard(2, { state: 'new' }), sampleShard(3)]);
    expect(byId(await (await reopened(opened())).shards())).toHaveLength(3);
  });

  test('setState moves from one state to another, where the shard is in the first', async () => {
    const { store } = opened();
    await store.create([sampleShard(1, { state: 'new' })]);
    expect(await store.setState(1, 'open', 'draining')).toBe(false);
    expect(await store.setState(1, 'new', 'open')).toBe(true);
    expect(await store.setState(1, 'new', 'open')).toBe(false);
    expect(await store.setState(2, 'new', 'open')).toBe(false);
    expect((await store.shards())[0]!.state).toBe('open');
  });

  test('setLoad stores what was measured and nothing else', async () => {
    const { store } = opened();
    await store.create([sampleShard(1, { jobs: 5, nextNumber: 9 }), sampleShard(2)]);
    await store.setLoad([]);
    await store.setLoad([
      { shard: 1, triggersPerSecond: 12.5, saturated: true },
      { shard: 77, triggersPerSecond: 1, saturated: true },
    ]);
    expect(byId(await store.shards())).toEqual([
      sampleShard(1, { jobs: 5, nextNumber: 9, triggersPerSecond: 12.5, saturated: true }),
      sampleShard(2),
    ]);
  });

  test('addJobs changes counts, never numbers', async () => {
    const { store } = opened();
    await store.create([sampleShard(1, { jobs: 5, nextNumber: 9 }), sampleShard(2)]);
    await store.addJobs([]);
    await store.addJobs([
      { shard: 1, jobs: -3 },
      { shard: 2, jobs: 4 },
      { shard: 1, jobs: 1 },
    ]);
    expect(byId(await store.shards())).toEqual([
      sampleShard(1, { jobs: 3, nextNumber: 9 }),
      sampleShard(2, { jobs: 4 }),
    ]);
  });
}

function placeStatements(opened: () => StoreOpening<ShardStore>): void {
  test('a block comes from the least-loaded open shard of the set, as many places as are free', async () => {
    const { store } = opened();
    await store.create([
      sampleShard(1, { jobs: 50, nextNumber: 60, slot: 1 }),
      sampleShard(2, { jobs: 30, nextNumber: 31, slot: 2 }),
      sampleShard(3, { jobs: 0, state: 'new' }),
      sampleShard(4, { jobs: 0, state: 'draining' }),
      sampleShard(5, { jobs: 0, delivery: 'at-least-once' }),
      sampleShard(6, { jobs: 0, state: 'closed' }),
    ]);
    expect(await store.takePlaces('exactly-once', 20, 100)).toEqual({ shard: 2, slot: 2, firstNumber: 31, count: 20 });
    // Shards 1 and 2 have 50 jobs now: either is right.
    const second = (await store.takePlaces('exactly-once', 45, 100))!;
    expect([1, 2]).toContain(second.shard);
    expect(second).toMatchObject({ firstNumber: second.shard === 1 ? 60 : 51, count: 45 });
    const third = (await store.takePlaces('exactly-once', 60, 100))!;
    expect(third.shard).toBe(3 - second.shard);
    expect(third.count).toBe(50);
    expect(await store.takePlaces('exactly-once', 60, 100)).toMatchObject({ shard: second.shard, count: 5 });
    expect(await store.takePlaces('exactly-once', 1, 100)).toBeNull();
    expect(await store.takePlaces('at-least-once', 1, 100)).toMatchObject({ shard: 5, firstNumber: 1, count: 1 });
  });

  test('a saturated shard gives no places', async () => {
    const { store } = opened();
    await store.create([sampleShard(1), sampleShard(2, { jobs: 10 })]);
    await store.setLoad([{ shard: 1, triggersPerSecond: 9_000, saturated: true }]);
    expect(await store.takePlaces('exactly-once', 5, 100)).toMatchObject({ shard: 2 });
    await store.setLoad([{ shard: 1, triggersPerSecond: 10, saturated: false }]);
    expect(await store.takePlaces('exactly-once', 5, 100)).toMatchObject({ shard: 1 });
  });

  test('places given back are free again, their numbers are not', async () => {
    const { store } = opened();
    await store.create([sampleShard(1)]);
    expect(await store.takePlaces('exactly-once', 10, 10)).toMatchObject({ firstNumber: 1, count: 10 });
    expect(await store.takePlaces('exactly-once', 1, 10)).toBeNull();
    await store.addJobs([{ shard: 1, jobs: -4 }]);
    expect(await store.takePlaces('exactly-once', 10, 10)).toEqual({ shard: 1, slot: 1, firstNumber: 11, count: 4 });
    expect((await store.shards())[0]).toMatchObject({ jobs: 10, nextNumber: 15 });
  });

  test('no number is given twice when many ask at once, and no shard is filled above its capacity', async () => {
    const { store } = opened();
    await store.create([1, 2, 3].map((id) => sampleShard(id)));
    const blocks = await Promise.all(Array.from({ length: 60 }, () => store.takePlaces('exactly-once', 7, 100)));
    const numbers = blocks.flatMap((block) =>
      block === null ? [] : Array.from({ length: block.count }, (_, i) => `${block.shard}/${block.firstNumber + i}`),
    );
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(numbers.length).toBe(300);
    for (const shard of await (await reopened(opened())).shards()) {
      expect(shard).toMatchObject({ jobs: 100, nextNumber: 101 });
    }
  });
}

/** Every statement of `src/ports/shard-store.ts` as a test. */
export function shardStoreContract(name: string, open: () => Promise<StoreOpening<ShardStore>>): void {
  describe(`shard store: ${name}`, () => {
    let opening: StoreOpening<ShardStore>;
    beforeEach(async () => {
      opening = await open();
    });
    afterEach(async () => {
      await opening?.close();
    });
    shardStatements(() => opening);
    placeStatements(() => opening);
  });
}
