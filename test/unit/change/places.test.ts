import { describe, expect, it } from 'vitest';
import { Places } from '../../../src/engine/change/places.ts';
import { sampleShard } from '../../contract/samples.ts';
import { installation } from '../allot/installation.ts';

const DELIVERY = 'at-least-once';
const ROUND = 4_000;

/** A manager and one worker in memory, and the places of one applier, which a bulk asks for round by round. */
async function running() {
  const all = installation();
  const manager = await all.manager();
  const worker = await all.worker('W');
  const told: string[] = [];
  const places = new Places(all.stores.shards, all.clock, (message) => told.push(message));
  const opened = async () => (await all.stores.shards.shards()).filter(({ state }) => state === 'open').length;
  await all.until(async () => (await opened()) === 2, 2_000);
  // 80,000 places are there before anybody asks.
  await all.stores.shards.create(
    Array.from({ length: 6 }, (_, n) => sampleShard(100 + n, { delivery: DELIVERY, slot: n + 2, state: 'open' })),
  );
  /** Holds places for `jobs` in rounds, one after the other, until one is not served whole. */
  async function place(jobs: number, isBulk = true): Promise<number> {
    for (let placed = 0; ; placed += ROUND) {
      if (placed === jobs) return placed;
      const held = await places.hold(DELIVERY, ROUND, { isBulk, isOver: () => false });
      let taken = 0;
      while (held.take() !== null) taken += 1;
      if (taken < ROUND) return placed + taken;
    }
  }
  /** The same beside a clock that goes on; answers how long it took, in ms, too. */
  async function placing(jobs: number, isBulk = true) {
    const from = all.clock.monotonicMs();
    let placed: number | null = null;
    let tookMs = 0;
    void place(jobs, isBulk).then((n) => {
      placed = n;
      tookMs = all.clock.monotonicMs() - from;
    });
    await all.until(async () => placed !== null, 300_000);
    return { placed, tookMs };
  }
  /** The manager loses the lease store, and with it, soon, its leadership. */
  async function lose(): Promise<void> {
    manager.cut('refused');
    await all.clock.advance(5_000);
  }
  return { ...all, manager, worker, places, placing, lose, told };
}

describe('places for a bulk', () => {
  it('takes all that a bulk wants as fast as it asks: rounds wait until the manager has made shards', async () => {
    const { placing } = await running();
    const { placed, tookMs } = await placing(1_000_000);
    expect(placed).toBe(1_000_000);
    expect(tookMs).toBeLessThan(20_000);
  });

  it('waits while all wheels lag, and goes on when they have kept up', async () => {
    const { placing, worker, clock } = await running();
    worker.wheelLagMs = 500;
    await clock.advance(1_500);
    clock.after(45_000, () => {
      worker.wheelLagMs = 0;
    });
    const { placed, tookMs } = await placing(200_000);
    expect(placed).toBe(200_000);
    expect(tookMs).toBeGreaterThan(40_000);
  });

  it('waits for a manager that is away for a while', async () => {
    const { placing, manager, lose, clock } = await running();
    await lose();
    clock.after(40_000, () => manager.cut('up'));
    const { placed } = await placing(200_000);
    expect(placed).toBe(200_000);
  });

  it('counts its patience from the last shard, however slowly they come', async () => {
    const { placing, lose, clock, stores } = await running();
    await lose();
    let id = 200;
    const slowly = (): void =>
      void clock.after(50_000, () => {
        const shard = {
          delivery: DELIVERY,
          slot: 0,
          state: 'open',
          jobs: 0,
          nextNumber: 1,
          triggersPerSecond: 0,
        } as const;
        void stores.shards.create([{ ...shard, id: id++, saturated: false }]);
        if (id < 204) slowly();
      });
    slowly();
    const { placed, tookMs } = await placing(120_000);
    expect(placed).toBe(120_000);
    expect(tookMs).toBe(200_000);
  });

  it('is refused when no shard has come for a minute, told once, and then at once for a while', async () => {
    const { placing, lose, told, clock } = await running();
    await lose();
    const first = await placing(100_000);
    expect(first).toMatchObject({ placed: 80_000 });
    expect(first.tookMs).toBeGreaterThanOrEqual(60_000);
    expect(first.tookMs).toBeLessThan(61_000);
    expect(told).toEqual(['new jobs are refused: no shard takes them']);
    expect(await placing(ROUND)).toEqual({ placed: 0, tookMs: 0 });
    await clock.advance(30_000);
    expect((await placing(ROUND)).tookMs).toBeGreaterThanOrEqual(60_000);
  });

  it('lets single creates wait for ten seconds only: whoever asked can repeat them', async () => {
    const { placing, lose } = await running();
    await lose();
    const { placed, tookMs } = await placing(100_000, false);
    expect(placed).toBe(80_000);
    expect(tookMs).toBeGreaterThanOrEqual(10_000);
    expect(tookMs).toBeLessThan(11_000);
  });

  it('refuses nothing of one set because the other is full', async () => {
    const { places, placing, lose } = await running();
    // There is no shard of the other set at all.
    await lose();
    const other = places.hold('exactly-once', 1, { isBulk: true, isOver: () => false });
    await placing(100_000);
    expect((await other).take()).toBeNull();
    const { placed, tookMs } = await placing(ROUND);
    expect({ placed, waited: tookMs > 0 }).toEqual({ placed: 0, waited: false });
  });
});
