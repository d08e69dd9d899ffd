import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CommitBudget } from '../../../src/engine/firing/commit-budget.ts';
import type { Bus } from '../../../src/ports/bus.ts';
import { rate, T0, World } from './world.ts';

interface Commit {
  lane: string;
  begunMs: number;
  endMs: number;
}

/** A bus whose commits take so long in turn, by the clock of the world, and what became of each. */
function slowCommits(world: World, tookMs: readonly number[]): { bus: Bus; commits: Commit[] } {
  const commits: Commit[] = [];
  let begun = 0;
  const { bus } = world.stores;
  const lane = async (id: string) => {
    const opened = await bus.lane(id);
    const { commit } = opened;
    return Object.assign(opened, {
      async commit(...given: Parameters<typeof commit>) {
        const begunMs = world.clock.monotonicMs();
        begun += 1;
        await world.clock.sleep(tookMs[begun % tookMs.length]!);
        await commit.apply(opened, given);
        commits.push({ lane: id, begunMs, endMs: world.clock.monotonicMs() });
      },
    });
  };
  return { bus: Object.assign(Object.create(bus), { lane }), commits };
}

/** A slot with something due each ms and two lanes, fired for a second by a loop that comes round each ms. */
async function firing(tookMs: readonly number[], budget?: CommitBudget): Promise<Commit[]> {
  const world = await World.open('exactly-once');
  for (let i = 0; i < 200; i += 1) await world.put(`j${i}`, { schedule: rate(200, T0 + i) });
  const { bus, commits } = slowCommits(world, tookMs);
  const runner = world.runner({
    stores: { ...world.stores, bus },
    installation: { id: 'i', slotsPerSet: 1, lanesPerSlot: 4 },
    ...(budget === undefined ? {} : { budget }),
  });
  let over = false;
  const adopting = runner.adopt().finally(() => {
    over = true;
  });
  while (!over) await world.clock.advance(1);
  await adopting;
  await world.through(runner.scan(world.nowMs));
  commits.length = 0;
  for (let ms = 0; ms < 1_000; ms += 1) {
    await world.clock.advance(1);
    runner.tick(world.nowMs);
  }
  return commits;
}

describe('transactions of a slot', () => {
  test('one at a time, by both lanes in turn, and no closer than one takes on average', async () => {
    const commits = await firing([5, 21]);
    expect(commits.length).toBeGreaterThan(35);
    expect(new Set(commits.map(({ lane }) => lane)).size).toBe(2);
    for (const [i, { lane, begunMs }] of commits.slice(1).entries()) {
      expect(lane).not.toBe(commits[i]!.lane);
      expect(begunMs).toBeGreaterThanOrEqual(commits[i]!.endMs);
    }
    // 13 ms on average, told by the last eight or so; how long one takes is learned by the first.
    const late = commits.slice(20);
    const apart = late.slice(1).map(({ begunMs }, i) => begunMs - late[i]!.begunMs);
    expect(Math.min(...apart)).toBeGreaterThanOrEqual(11);
    expect(Math.max(...apart)).toBeLessThanOrEqual(23);
  });

  test('slow ones begin at once after each other: a pause is 100 ms at most', async () => {
    const commits = await firing([120]);
    for (const [i, { begunMs }] of commits.slice(1).entries()) {
      expect(begunMs - commits[i]!.endMs).toBeLessThanOrEqual(2);
    }
    expect(commits.length).toBeGreaterThanOrEqual(7);
  });

  test('no more of them than the budget gives', async () => {
    const commits = await firing([1], new CommitBudget(50));
    expect(commits.length).toBeGreaterThanOrEqual(48);
    // 50 in the second, and what was kept of the time before.
    expect(commits.length).toBeLessThanOrEqual(53);
  });
});

describe('a budget of commits', () => {
  test('gives its rate over any span, and what 50 ms give at most beside it, to any number of slots at any times', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2_000 }),
        fc.array(fc.double({ min: 0, max: 40, noNaN: true }), { minLength: 1, maxLength: 400 }),
        (perSecond, waits) => {
          const budget = new CommitBudget(perSecond);
          const given: number[] = [];
          let nowMs = 1_000;
          for (const wait of waits) {
            nowMs += wait;
            for (let slot = 0; slot < 3; slot += 1) if (budget.take(nowMs)) given.push(nowMs);
          }
          const most = (spanMs: number): number => ((spanMs + 50) * perSecond) / 1_000 + 1 + 1e-6;
          for (let from = 0; from < given.length; from += 1) {
            const to = given.length - 1;
            expect(to - from + 1).toBeLessThanOrEqual(most(given[to]! - given[from]!));
          }
          // Whoever asks again and again gets all of it.
          const before = given.length;
          for (let ms = 0; ms <= 1_000; ms += 0.25) if (budget.take(nowMs + ms)) given.push(nowMs + ms);
          expect(given.length - before).toBeGreaterThanOrEqual(Math.floor(perSecond * 0.999) - 1);
        },
      ),
    );
  });
});
