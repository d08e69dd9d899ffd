import { describe, expect, test } from 'vitest';
import { carillonError } from '../../../src/core/errors.ts';
import { decodeMessage, PROGRESS_KEY, type Progress } from '../../../src/core/messages.ts';
import { encodeRecord, recordOf } from '../../../src/core/record.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { every, once, rate, T0, World } from './world.ts';

/** Two shards, whole and with one job each. */
async function twoShards(delivery: 'exactly-once' | 'at-least-once'): Promise<World> {
  const world = await World.open(delivery);
  await world.stores.shards.create([world.shard(1)]);
  await world.makeWhole(1);
  await world.put('near', { schedule: rate(1_000), misfire: { mode: 'all' } });
  await world.put('other', { schedule: rate(1_000), misfire: { mode: 'all' }, shard: 1 });
  return world;
}

/** Stores whose job store cannot be asked for the jobs of a shard while `away` says so. */
function withoutJobs(world: World, away: () => boolean): Stores {
  const { jobs } = world.stores;
  const byShard: typeof jobs.byShard = async (...args) => {
    if (away()) throw carillonError('unavailable', 'no primary');
    return await jobs.byShard(...args);
  };
  return { ...world.stores, jobs: { ...jobs, byShard } };
}

async function lastProgress(world: World): Promise<Progress> {
  const partition = world.delivery === 'exactly-once' ? 1 : 0;
  const reader = await world.stores.bus.reader(TOPICS.progress, partition, 'first');
  let last: Progress | null = null;
  while (!(await reader.caughtUp())) {
    for (const { key, value } of await reader.read(0)) {
      if (key === PROGRESS_KEY) last = decodeMessage<Progress>(value!);
    }
  }
  await reader.close();
  return last!;
}

async function rounds(world: World, runner: Awaited<ReturnType<World['adopted']>>, ms: number): Promise<void> {
  const endMs = world.nowMs + ms;
  while (world.nowMs < endMs) {
    await world.clock.advance(50);
    await world.round(runner).catch(() => {});
    // What the failed step kept from running.
    while (runner.tick(world.nowMs) > 0) await runner.settled();
    await runner.commitProgress();
  }
}

describe.each(['at-least-once', 'exactly-once'] as const)('rebuild, %s', (delivery) => {
  test('a lost shard that cannot be rebuilt: others go on, T too, and it stands alone in progress until it can', async () => {
    const world = await twoShards(delivery);
    let away = false;
    const runner = await world.adopted({ stores: withoutJobs(world, () => away) });
    await world.run(runner, 500);
    away = true;
    await world.stores.triggers.drop(0);
    await rounds(world, runner, 30_000);
    expect(world.told.of('shards_lost_total')).toBe(1);
    // What was in the wheel came from memory; beyond the horizon nothing.
    const near = await world.timesOf('near');
    expect(near).toEqual(every(1_000, T0 + 1_000, near.at(-1)!));
    expect(near.at(-1)!).toBeGreaterThanOrEqual(T0 + 11_000);
    expect(near.at(-1)!).toBeLessThan(T0 + 20_000);
    expect(await world.timesOf('other')).toEqual(every(1_000, T0 + 1_000, world.nowMs));
    expect(runner.watermark.t).toBeGreaterThan(T0 + 29_000);
    const { t, lagging } = await lastProgress(world);
    expect(t).toBe(runner.watermark.t);
    expect(Object.keys(lagging!)).toEqual(['0']);
    expect(lagging!['0']).toBeLessThan(T0 + 20_000);
    away = false;
    await world.run(runner, 2_000);
    expect(await world.timesOf('near')).toEqual(every(1_000, T0 + 1_000, world.nowMs));
    expect((await lastProgress(world)).lagging).toBeUndefined();
    expect([...(await world.cursors())]).toEqual([]);
  });

  test('its owner dies meanwhile: the next one rebuilds it from its own T; nothing is lost, nothing comes twice', async () => {
    const world = await twoShards(delivery);
    let away = false;
    const stores = withoutJobs(world, () => away);
    let runner = await world.adopted({ stores });
    await world.run(runner, 500);
    away = true;
    await world.stores.triggers.drop(0);
    await rounds(world, runner, 20_000);
    runner.drop('killed');
    runner = await world.adopted({ stores });
    await rounds(world, runner, 3_000);
    away = false;
    await world.run(runner, 2_000);
    const times = await world.timesOf('near');
    expect([...new Set(times)]).toEqual(every(1_000, T0 + 1_000, world.nowMs));
    expect(times).toHaveLength(new Set(times).size);
    expect(await world.timesOf('other')).toEqual(every(1_000, T0 + 1_000, world.nowMs));
    expect([...(await world.cursors())]).toEqual([]);
  });

  test('it dies between the cursors of what T has passed and their payment: they are owed by the next one', async () => {
    const world = await twoShards(delivery);
    let away = false;
    const stores = withoutJobs(world, () => away);
    let runner = await world.adopted({ stores });
    for (let i = 0; i < 50; i += 1)
      await world.put(`shot${i}`, { schedule: once(T0 + 22_000 + i), misfire: { mode: 'all' } });
    await world.run(runner, 500);
    away = true;
    await world.stores.triggers.drop(0);
    await rounds(world, runner, 25_000);
    away = false;
    world.trusted = false;
    while (await world.through(runner.rebuild()));
    await runner.commitProgress(true);
    expect((await world.cursors()).size).toBe(51);
    runner.drop('killed');
    world.trusted = true;
    runner = await world.adopted({ stores });
    await world.run(runner, 2_000);
    for (let i = 0; i < 50; i += 1) expect(await world.timesOf(`shot${i}`)).toEqual([T0 + 22_000 + i]);
    expect(await world.timesOf('near')).toEqual(every(1_000, T0 + 1_000, world.nowMs));
    expect([...(await world.cursors())]).toEqual([]);
  });

  test('an owner of an older epoch rebuilds nothing', async () => {
    const world = await twoShards(delivery);
    const runner = await world.adopted();
    await world.run(runner, 500);
    await world.stores.triggers.drop(0);
    await world.stores.triggers.claim(0, 99);
    await world.stores.triggers.claim(1, 99);
    await world.run(runner, 8_000);
    expect(runner.phase).toBe('lost');
    expect((await world.stores.triggers.count(0)).members).toBe(0);
  });

  test('a job that cannot be timed goes into the error state; the rest of its shard is rebuilt', async () => {
    const world = await twoShards(delivery);
    const bad = await world.put('bad', { schedule: once(T0 + 60_000) });
    const stored = { ...bad, schedule: { kind: 'cron' as const, expression: '0 0 * * *', zone: 'No/Where' } };
    const expected = { version: bad.version, offset: bad.position.offset };
    await world.stores.jobs.replaceMany([{ job: stored, expected }]);
    const runner = await world.adopted();
    await world.stores.triggers.drop(0);
    await world.run(runner, 12_000, 50);
    expect((await world.stores.jobs.get('c', 'bad'))?.state).toBe('error');
    expect(await world.timesOf('near')).toEqual(every(1_000, T0 + 1_000, world.nowMs));
  });
});

describe.each(['at-least-once', 'exactly-once'] as const)('reconcile, %s', (delivery) => {
  test('a member that is missing is put back, counted as drift, and its job fires', async () => {
    const world = await twoShards(delivery);
    const job = await world.put('lost', { schedule: once(T0 + 1_500_000) });
    const runner = await world.adopted();
    const { triggers } = world.stores;
    await triggers.writeBack(0, 1, [{ number: job.number, version: 1, score: 0 }]);
    await triggers.removeFinished(0, [{ number: job.number, version: 1 }]);
    // Each shard is compared once in a quarter of an hour.
    await world.run(runner, 1_000_000, 5_000);
    expect(world.told.of('drift_total')).toBe(1);
    await world.run(runner, 510_000, 500);
    expect(await world.timesOf('lost')).toEqual([T0 + 1_500_000]);
    expect(world.told.of('drift_total')).toBe(1);
  });

  test('jobs that ended, failed, are paused or young are no drift', async () => {
    const world = await twoShards(delivery);
    await world.put('over', { schedule: once(T0 + 2_000) });
    await world.put('paused', { schedule: rate(1_000), state: 'paused' });
    const bad = await world.put('bad', { schedule: once(T0 + 60_000) });
    const stored = {
      ...bad,
      version: 2,
      schedule: { kind: 'cron' as const, expression: '0 0 * * *', zone: 'No/Where' },
    };
    await world.stores.jobs.replaceMany([{ job: stored, expected: { version: 1, offset: bad.position.offset } }]);
    const record = encodeRecord(recordOf(stored));
    await world.stores.triggers.add(0, [{ number: bad.number, version: 2, score: T0 + 3_000, record }]);
    const runner = await world.adopted();
    await world.run(runner, 1_000_000, 5_000);
    expect((await world.stores.jobs.get('c', 'bad'))?.state).toBe('error');
    expect((await world.stores.jobs.get('c', 'over'))?.state).toBe('finished');
    expect(world.told.of('jobs_compared_total')).toBeGreaterThan(5);
    expect(world.told.of('drift_total')).toBe(0);
  });

  test('a member that no job has goes, and never fires', async () => {
    const world = await twoShards(delivery);
    const runner = await world.adopted();
    const job = { ...world.jobs.get('near')!, key: 'ghost', number: 77, schedule: once(T0 + 1_500_000) };
    const record = encodeRecord(recordOf(job));
    await world.stores.triggers.add(0, [{ number: 77, version: 1, score: T0 + 1_500_000, record }]);
    await world.run(runner, 1_000_000, 5_000);
    expect(world.told.of('drift_total')).toBe(1);
    await world.run(runner, 510_000, 500);
    expect(await world.timesOf('ghost')).toEqual([]);
    expect(await world.stores.triggers.count(0)).toEqual({ members: 1, finished: 0 });
  });

  test('at rest it compares each job once in 15 minutes, however many steps there are', async () => {
    const world = await twoShards(delivery);
    const runner = await world.adopted();
    await world.run(runner, 3_600_000, 1_000);
    const compared = world.told.of('jobs_compared_total');
    // Two shards of one job each are compared by the credit of 20,000 places in 15 minutes, 500 at a time.
    expect(compared).toBeGreaterThan(8);
    expect(compared).toBeLessThanOrEqual(4 * 40 + 2);
    expect(world.told.of('drift_total')).toBe(0);
  });
});
