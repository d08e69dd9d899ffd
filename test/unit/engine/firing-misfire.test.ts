import { describe, expect, test } from 'vitest';
import type { MisfirePolicy } from '../../../src/core/job.ts';
import { every, rate, T0, World } from './world.ts';

const at = (time: string): number => Date.parse(`2026-12-01T${time}Z`);

describe.each(['at-least-once', 'exactly-once'] as const)('misfires, %s', (delivery) => {
  /** A rate of 420 s; all schedulers are down from 00:10:00 to 01:00:30; then it runs on to 01:11. */
  async function downtime(misfire: MisfirePolicy): Promise<{ world: World; times: number[] }> {
    const world = await World.open(delivery);
    const first = await world.adopted();
    await world.put('j', { schedule: rate(420_000), misfire });
    await world.run(first, 600_000, 500);
    expect(await world.timesOf('j')).toEqual([at('00:07:00')]);
    await first.close();
    await world.clock.advance(at('01:00:30') - world.nowMs);
    const runner = await world.adopted();
    await world.run(runner, at('01:11:00') - world.nowMs, 100);
    return { world, times: (await world.timesOf('j')).slice(1) };
  }
  const missed = every(420_000, at('00:14:00'), at('00:56:00'));
  const onTime = [at('01:03:00'), at('01:10:00')];

  test('O-IV-04 skip: the next fire is the next slot', async () => {
    const { world, times } = await downtime({ mode: 'skip' });
    expect(times).toEqual(onTime);
    expect(world.told.of('misfires_total/dropped')).toBe(7);
  });

  test('O-IV-04 once: one late fire with the latest missed time, counted apart from lateness', async () => {
    const { world, times } = await downtime({ mode: 'once' });
    expect(times).toEqual([at('00:56:00'), ...onTime]);
    expect((await world.fired())[1]!.atMs - at('01:00:30')).toBeLessThan(1_000);
    expect([world.told.of('misfires_total/fired'), world.told.of('misfires_total/dropped')]).toEqual([1, 6]);
    expect(Math.max(...world.told.latenesses.map(({ ms }) => ms))).toBeLessThan(1_000);
  });

  test('O-IV-04 all: each with its own time, in order, and the cursor is gone at the end', async () => {
    const { world, times } = await downtime({ mode: 'all' });
    expect(times).toEqual([...missed, ...onTime]);
    expect(world.told.of('cursors_opened_total/misfire')).toBe(1);
    expect([...(await world.cursors())]).toEqual([]);
  });

  test('all with limits: number and age drop the oldest', async () => {
    expect((await downtime({ mode: 'all', maxNumber: 3 })).times).toEqual([...missed.slice(4), ...onTime]);
    expect((await downtime({ mode: 'all', maxAgeMs: 1_000_000 })).times).toEqual([...missed.slice(5), ...onTime]);
  });

  test('all with a rate: make-up fires keep it, T does not wait for them, and a new owner goes on where it was', async () => {
    const world = await World.open(delivery);
    const first = await world.adopted();
    await world.put('j', { schedule: rate(1_000), misfire: { mode: 'all', maxPerSecond: 2 } });
    await world.put('other', { schedule: rate(1_000) });
    await world.run(first, 1_500);
    await first.close();
    await world.clock.advance(60_000);
    const second = await world.adopted();
    await world.run(second, 4_950);
    const during = await world.timesOf('j');
    expect(during.length).toBeGreaterThanOrEqual(10);
    expect(during.length).toBeLessThanOrEqual(12);
    expect(second.watermark.t).toBeGreaterThan(world.nowMs - 1_100);
    expect([...(await world.cursors()).keys()]).toEqual(['0-1']);
    await world.run(second, 100);
    await second.close();
    const third = await world.adopted();
    await world.run(third, 120_000, 50);
    const times = await world.timesOf('j');
    expect(times).toEqual(every(1_000, T0 + 1_000, times.at(-1)!));
    expect(times.at(-1)).toBeGreaterThan(world.nowMs - 1_001);
    expect([...(await world.cursors())]).toEqual([]);
    expect((await world.timesOf('other')).at(-1)).toBeGreaterThan(world.nowMs - 1_001);
  });

  test('O-IV-07: a year of missed seconds is computed, not walked', async () => {
    const world = await World.open(delivery);
    const first = await world.adopted();
    await world.put('j', { schedule: rate(1_000) });
    await world.run(first, 1_500);
    await world.through(first.drain());
    const year = 365 * 86_400_000;
    await world.clock.advance(year);
    const runner = await world.adopted();
    const started = performance.now();
    await world.round(runner);
    expect(performance.now() - started).toBeLessThan(50);
    await world.run(runner, 1_000);
    const times = await world.timesOf('j');
    // Made up for: one missed time, then the younger ones on the grid.
    expect(times.slice(0, 3)).toEqual([T0 + 1_000, T0 + year - 9_000, T0 + year - 8_000]);
    expect(times.at(-1)).toBe(T0 + year + 2_000);
    expect(world.told.of('misfires_total/dropped')).toBe(365 * 86_400 - 11);
  });

  test('O-IV-06: unmoved by restarts', async () => {
    const startMs = Date.UTC(2027, 1, 1, 9, 30);
    const world = await World.open(delivery, { startMs });
    let runner = await world.adopted();
    await world.put('j', { schedule: rate(43_200_000, startMs + 43_200_000) });
    for (const restart of ['2027-02-01T15:00:00Z', '2027-02-01T20:59:59Z']) {
      await world.clock.advance(Date.parse(restart) - world.nowMs);
      await world.through(runner.drain());
      runner = await world.adopted();
    }
    const onGrid = ['2027-02-01T21:30:00Z', '2027-02-02T09:30:00Z', '2027-02-02T21:30:00Z'].map((time) =>
      Date.parse(time),
    );
    for (const due of onGrid) {
      // 12 h have more steps than a test needs: the scan comes a little before each time.
      await world.clock.advance(due - 5_000 - world.nowMs);
      await world.run(runner, 6_000, 100);
    }
    expect(await world.timesOf('j')).toEqual(onGrid);
  });

  test('O-IV-06: 1,000 fires of a 5,000 ms job span 4,995,000 ms and lateness does not grow', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('j', { schedule: rate(5_000, T0 + 5_000) });
    await world.run(runner, 5_000_000, 250);
    expect(await world.timesOf('j')).toEqual(every(5_000, T0 + 5_000, T0 + 5_000_000));
    expect(Math.max(...world.told.latenesses.map(({ ms }) => ms))).toBe(0);
  });
});
