import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  freePlaces,
  lagging,
  planGrowth,
  planShrink,
  type ShardFacts,
  type SlotFacts,
  saturated,
  wantedPlaces,
} from '../../src/core/capacity.ts';

const shardOf = (id: number, more: Partial<ShardFacts> = {}): ShardFacts => ({
  id,
  delivery: 'at-least-once',
  slot: id % 8,
  state: 'open',
  jobs: 0,
  triggersPerSecond: 0,
  saturated: false,
  ...more,
});
const shardsOf = (count: number, more: Partial<ShardFacts> = {}): ShardFacts[] =>
  Array.from({ length: count }, (_, id) => shardOf(id, more));
const slotsOf = (count: number, more: Partial<SlotFacts> = {}): SlotFacts[] =>
  Array.from({ length: count }, (_, slot) => ({ slot, triggersPerSecond: 0, lagging: false, ...more }));

const anyShards = fc
  .array(
    fc.record({
      slot: fc.nat(7),
      state: fc.constantFrom('new' as const, 'open' as const, 'draining' as const, 'closed' as const),
      jobs: fc.nat(10_000),
      triggersPerSecond: fc.nat(30_000),
      saturated: fc.boolean(),
    }),
    { maxLength: 60 },
  )
  .map((list): ShardFacts[] => list.map((shard, id) => ({ ...shard, id, delivery: 'at-least-once' })));

/** The shards as they are when a growth plan has been carried out. */
function grown(shards: readonly ShardFacts[], slots: readonly SlotFacts[], placedPerSecond: number): ShardFacts[] {
  const { create, reopen } = planGrowth(shards, slots, placedPerSecond);
  const opened = shards.map((shard): ShardFacts => (reopen.includes(shard.id) ? { ...shard, state: 'open' } : shard));
  return [...opened, ...create.map((slot, n) => shardOf(shards.length + n, { slot, state: 'new' }))];
}

describe('growth', () => {
  it('makes a shard in each of two slots at the first start, of 8 and of 64', () => {
    expect(planGrowth([], slotsOf(8), 0).create.sort()).toEqual([0, 1]);
    expect(planGrowth([], slotsOf(64), 0).create).toHaveLength(2);
    expect(planGrowth([], slotsOf(2), 0).create).toHaveLength(2);
  });

  it('does nothing while a fifth and a shard are free', () => {
    expect(planGrowth(shardsOf(8), slotsOf(8), 0)).toEqual({ create: [], reopen: [] });
    // 66,400 jobs in 80,000 places: 13,600 free, 13,280 wanted.
    expect(planGrowth(shardsOf(8, { jobs: 8_300 }), slotsOf(8), 0).create).toEqual([]);
    // 67,200 jobs: 12,800 free, 13,440 wanted.
    expect(planGrowth(shardsOf(8, { jobs: 8_400 }), slotsOf(8), 0).create).toHaveLength(1);
  });

  it('reaches ahead of a bulk: three seconds of what is placed now', () => {
    expect(wantedPlaces(60_000, 50_000)).toBe(150_000);
    // 75,000 free, 150,000 wanted: 75,000 missing, 8 shards.
    expect(planGrowth(shardsOf(8, { jobs: 625 }), slotsOf(8), 50_000).create).toHaveLength(8);
  });

  it('at most doubles in one round', () => {
    expect(planGrowth(shardsOf(10), slotsOf(8), 1_000_000).create).toHaveLength(10);
  });

  it('puts shards where few are, then where few triggers are', () => {
    const slots = slotsOf(3).map((slot) => ({ ...slot, triggersPerSecond: [500, 20, 100][slot.slot] ?? 0 }));
    const full = [0, 1, 2].map((slot) => shardOf(slot, { slot, jobs: 10_000, saturated: true }));
    expect(planGrowth(full, slots, 0).create[0]).toBe(1);
    expect(planGrowth([...full, shardOf(3, { slot: 1, jobs: 10_000, saturated: true })], slots, 0).create[0]).toBe(2);
  });

  it('makes no shard for wheels that lag, and none at all where all do', () => {
    const full = shardsOf(8, { saturated: true });
    const slots = slotsOf(8).map((slot) => ({ ...slot, lagging: slot.slot !== 5 }));
    expect(new Set(planGrowth(full, slots, 0).create)).toEqual(new Set([5]));
    expect(planGrowth(full, slotsOf(8, { lagging: true }), 100_000).create).toEqual([]);
  });

  it('takes draining shards back before it makes new ones', () => {
    const shards = [...shardsOf(8, { jobs: 9_500 }), shardOf(8, { state: 'draining', jobs: 10 })];
    const plan = planGrowth(shards, slotsOf(8), 0);
    expect(plan.reopen).toEqual([8]);
  });

  it('comes to an end, with the wanted places free, and asks for nothing then', () => {
    fc.assert(
      fc.property(anyShards, fc.nat(100_000), (shards, placedPerSecond) => {
        const slots = slotsOf(8);
        let now = shards;
        for (let round = 0; round < 10; round++) now = grown(now, slots, placedPerSecond);
        const jobs = now.filter((shard) => shard.state !== 'closed').reduce((sum, shard) => sum + shard.jobs, 0);
        expect(freePlaces(now)).toBeGreaterThanOrEqual(wantedPlaces(jobs, placedPerSecond));
        expect(planGrowth(now, slots, placedPerSecond)).toEqual({ create: [], reopen: [] });
      }),
    );
  });
});

describe('saturation', () => {
  it.each([
    ['free', { jobs: 9_999 }, false, false],
    ['full', { jobs: 10_000 }, false, true],
    ['full before, a few left', { jobs: 9_600, saturated: true }, false, true],
    ['full before, many left', { jobs: 9_400, saturated: true }, false, false],
    ['too many triggers', { triggersPerSecond: 20_000 }, false, true],
    ['too many before, a little fewer', { triggersPerSecond: 17_000, saturated: true }, false, true],
    ['too many before, far fewer', { triggersPerSecond: 15_000, saturated: true }, false, false],
    ['its owner lags', {}, true, true],
    ['its owner lagged', { saturated: true }, false, false],
  ])('%s', (_, facts, ownerLagging, expected) => {
    expect(saturated(shardOf(0, facts), ownerLagging)).toBe(expected);
  });

  it('a worker lags from 100 ms on and until it is below 50 ms', () => {
    const answers: boolean[] = [];
    let before = false;
    for (const lag of [0, 99, 100, 60, 50, 49, 60]) {
      before = lagging(lag, before);
      answers.push(before);
    }
    expect(answers).toEqual([false, false, true, true, true, false, false]);
  });
});

describe('shrinking', () => {
  it('leaves eight shards, however empty', () => {
    expect(planShrink(shardsOf(8), 8, 0)).toEqual([]);
  });

  it('drains the emptiest and youngest when far too many are nearly empty', () => {
    // 20 shards, nearly 200,000 free, 10,000 wanted: all but 8 may go.
    expect(planShrink(shardsOf(20, { jobs: 5 }), 8, 0)).toHaveLength(12);
    expect(planShrink(shardsOf(20, { jobs: 5 }), 8, 0)[0]).toBe(19);
  });

  it('drains no shard that is well used', () => {
    expect(planShrink(shardsOf(20, { jobs: 1_500 }), 8, 0)).toEqual([]);
  });

  it('never makes growth want something', () => {
    fc.assert(
      fc.property(anyShards, fc.nat(50_000), (shards, placedPerSecond) => {
        const settled = grown(
          grown(grown(shards, slotsOf(8), placedPerSecond), slotsOf(8), placedPerSecond),
          slotsOf(8),
          placedPerSecond,
        );
        const drain = planShrink(settled, 8, placedPerSecond);
        const drained = settled.map((s): ShardFacts => (drain.includes(s.id) ? { ...s, state: 'draining' } : s));
        if (drain.length > 0)
          expect(planGrowth(drained, slotsOf(8), placedPerSecond)).toEqual({ create: [], reopen: [] });
      }),
    );
  });
});
