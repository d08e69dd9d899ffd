import { describe, expect, test } from 'vitest';
import { every, once, rate, T0, World } from './world.ts';

describe.each(['at-least-once', 'exactly-once'] as const)('%s', (delivery) => {
  test('rate, one-shot and cron fire at their times, each once, and the one-shot is finished', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('rate', { schedule: rate(1_000, T0 + 500) });
    await world.put('once', { schedule: once(T0 + 2_345) });
    await world.put('cron', { schedule: { kind: 'cron', expression: '*/20 * * * * *' } });
    await world.put('far', { schedule: once(T0 + 86_400_000) });
    // Long enough for the last write-back of the cron job.
    await world.run(runner, 60_300);
    expect(await world.timesOf('rate')).toEqual(every(1_000, T0 + 500, T0 + 59_500));
    expect(await world.timesOf('once')).toEqual([T0 + 2_345]);
    expect(await world.timesOf('cron')).toEqual([T0 + 20_000, T0 + 40_000, T0 + 60_000]);
    for (const { nominalMs, atMs } of await world.fired()) {
      expect(atMs - nominalMs).toBeGreaterThanOrEqual(0);
      expect(atMs - nominalMs).toBeLessThanOrEqual(10);
    }
    expect((await world.stores.jobs.get('c', 'once'))?.state).toBe('finished');
    expect(await world.stores.triggers.count(0)).toEqual({ members: 3, finished: 0 });
    // T follows the clock, and the far job never was in memory.
    expect(runner.watermark.t).toBeGreaterThan(world.nowMs - 1_100);
    expect(runner.watermark.t).toBeLessThanOrEqual(world.nowMs);
    expect(runner.entries).toBe(1);
  });

  test('a job beyond the horizon is written back and found again by the scan', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('minute', { schedule: rate(60_000) });
    await world.run(runner, 300_000, 50);
    expect(await world.timesOf('minute')).toEqual(every(60_000, T0 + 60_000, T0 + 300_000));
    expect(world.told.of('write_backs_total')).toBeGreaterThanOrEqual(4);
    expect(world.told.of('horizons_moved_total')).toBe(0);
  });

  test('a graceful handover: the new owner goes on without a gap or a copy', async () => {
    const world = await World.open(delivery);
    let runner = await world.adopted();
    await world.put('a', { schedule: rate(100) });
    await world.put('b', { schedule: rate(7_000) });
    for (let i = 0; i < 5; i += 1) {
      await world.run(runner, 3_333);
      await world.through(runner.drain());
      expect(runner.phase).toBe('closed');
      await world.clock.advance(120);
      runner = await world.adopted();
      await world.round(runner);
    }
    const endMs = world.nowMs;
    expect(await world.timesOf('a')).toEqual(every(100, T0 + 100, endMs));
    expect(await world.timesOf('b')).toEqual(every(7_000, T0 + 7_000, endMs));
  });

  test('a worker that does not trust its lease publishes nothing; then it goes on in order (I4)', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('a', { schedule: rate(1_000) });
    await world.run(runner, 2_000);
    world.trusted = false;
    await world.run(runner, 3_000);
    expect(await world.timesOf('a')).toEqual(every(1_000, T0 + 1_000, T0 + 2_000));
    world.trusted = true;
    await world.run(runner, 1_000);
    expect(await world.timesOf('a')).toEqual(every(1_000, T0 + 1_000, T0 + 6_000));
  });

  test('an owner of an older epoch is lost, and says so once', async () => {
    const world = await World.open(delivery);
    const reasons: string[] = [];
    const old = await world.adopted({ lost: (reason) => reasons.push(reason) });
    await world.put('a', { schedule: rate(1_000) });
    await world.run(old, 1_500);
    const young = await world.adopted();
    await world.run(old, 3_000);
    expect(old.phase).toBe('lost');
    expect(reasons).toHaveLength(1);
    await world.run(young, 1_000);
    const times = await world.timesOf('a');
    expect([...new Set(times)]).toEqual(every(1_000, T0 + 1_000, T0 + 5_000));
    // Up to its fence an at-least-once owner has published what it held: same ids, which the consumer drops.
    if (delivery === 'exactly-once') expect(times).toHaveLength(5);
    // Nobody takes a slot back with an older epoch.
    const stale = world.runner({ epoch: 1, incarnation: 'stale' });
    await world.through(stale.adopt());
    expect(stale.phase).toBe('lost');
  });

  test('a new shard is claimed, scanned and opened while the slot is owned', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    expect((await world.stores.shards.shards()).map((shard) => shard.state)).toEqual(['open']);
    await world.stores.shards.create([world.shard(7)]);
    expect(await world.through(runner.syncShards(world.nowMs))).toBe(1);
    expect((await world.stores.shards.shards()).map((shard) => shard.state)).toEqual(['open', 'open']);
    await world.put('there', { schedule: rate(1_000), shard: 7 });
    await world.run(runner, 3_000);
    expect(await world.timesOf('there')).toEqual(every(1_000, T0 + 1_000, T0 + 3_000));
  });

  test('fire now: one run with its own id, paused or not, and nothing else changes', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('a', { schedule: rate(1_000) });
    await world.run(runner, 1_500);
    await world.fire('a', 'k1');
    await world.round(runner);
    await world.change('a', { state: 'paused' });
    await world.round(runner);
    await world.fire('a', 'k2');
    await world.run(runner, 2_000);
    const fired = (await world.fired()).map((one) => one.id);
    expect(fired).toEqual([`0-1-${T0 + 1_000}`, `0-1-${T0 + 1_500}-fk1`, `0-1-${T0 + 1_500}-fk2`]);
    expect(runner.entries).toBe(0);
    expect(runner.watermark.o).toBe(4);
  });

  test('horizon moved by somebody else: the shard is rebuilt, nothing is lost or fired twice', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('a', { schedule: rate(1_000) });
    await world.put('b', { schedule: once(T0 + 30_000) });
    await world.run(runner, 3_500);
    const { triggers } = world.stores;
    const rebuilt = world.told.of('shards_rebuilt_total');
    const epoch = 1;
    const claimed = await triggers.claim(0, epoch);
    const expectedHorizonMs = claimed.status === 'ok' ? claimed.horizonMs : 0;
    await triggers.scan(0, { epoch, expectedHorizonMs, fromMs: expectedHorizonMs, horizonMs: T0 + 40_000 });
    await world.run(runner, 31_500);
    expect(world.told.of('shards_rebuilt_total') - rebuilt).toBe(1);
    expect(await world.timesOf('a')).toEqual(every(1_000, T0 + 1_000, T0 + 35_000));
    expect(await world.timesOf('b')).toEqual([T0 + 30_000]);
  });

  test('a wall clock that is believed: set back, nothing fires until T is past; set forward, the misfire rule decides', async () => {
    const world = await World.open(delivery);
    let runner = await world.adopted();
    await world.put('a', { schedule: rate(1_000) });
    await world.run(runner, 5_500, 100);
    world.clock.setWall(T0 - 3_600_000);
    await world.run(runner, 20_000, 100);
    runner.drop('crash');
    runner = await world.adopted();
    await world.run(runner, 20_000, 100);
    expect(runner.watermark.t).toBeLessThanOrEqual(T0 + 5_500);
    world.clock.setWall(T0 + 5_500);
    await world.run(runner, 2_000, 100);
    expect(await world.timesOf('a')).toEqual(every(1_000, T0 + 1_000, T0 + 7_000));
    world.clock.setWall(T0 + 60_500);
    await world.run(runner, 2_000, 100);
    // Misfires once, with the latest of them, and then all that are younger than ten seconds.
    expect((await world.timesOf('a')).slice(7)).toEqual(every(1_000, T0 + 50_000, T0 + 62_000));
  });

  test('gauges name every queue with its bound (I10)', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    runner.reportGauges(world.nowMs);
    for (const queue of ['ready', 'write_backs', 'batches', 'fast_path_holds', 'answers']) {
      expect(world.told.gauges.get(`queue_depth/${queue}`)).toBe(0);
      expect(world.told.gauges.get(`queue_bound/${queue}`)).toBeGreaterThan(0);
    }
  });
});
