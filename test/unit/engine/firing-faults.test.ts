import { describe, expect, test } from 'vitest';
import { carillonError } from '../../../src/core/errors.ts';
import type { Schedule } from '../../../src/core/schedule/types.ts';
import type { BusProducer } from '../../../src/ports/bus.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import type { TriggerStore } from '../../../src/ports/trigger-store.ts';
import { every, once, rate, T0, World } from './world.ts';

/** The stores of a world with methods of the trigger store replaced. */
function withTriggers(world: World, replaced: Partial<TriggerStore>): Stores {
  return { ...world.stores, triggers: Object.assign(Object.create(world.stores.triggers), replaced) };
}

/** Chance that repeats: a small linear generator. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

describe.each(['at-least-once', 'exactly-once'] as const)('faults, %s', (delivery) => {
  test('O-DL-03: refused, applied without an answer, or lost write-backs: one instance per slot, none late', async () => {
    const world = await World.open(delivery);
    const random = chance(7);
    const { triggers } = world.stores;
    let failures = 0;
    const stores = withTriggers(world, {
      async writeBack(shard, epoch, scores) {
        const dice = random();
        if (dice > 0.3) return await triggers.writeBack(shard, epoch, scores);
        failures += 1;
        if (dice < 0.1) await triggers.writeBack(shard, epoch, scores);
        throw carillonError('unavailable', 'no answer');
      },
    });
    const runner = await world.adopted({ stores });
    const jobs = 200;
    for (let i = 0; i < jobs; i += 1) await world.put(`j${i}`, { schedule: rate(60_000, T0 + 60_000 + i * 13) });
    const endMs = T0 + 5 * 60_000 + 10_000;
    while (world.nowMs < endMs) {
      await world.clock.advance(50);
      await world.round(runner).catch(() => {});
    }
    expect(failures).toBeGreaterThan(20);
    const ids = (await world.fired()).map(({ id }) => id);
    expect(ids).toHaveLength(jobs * 5);
    expect(new Set(ids).size).toBe(jobs * 5);
    expect(Math.max(...world.told.latenesses.map(({ ms }) => ms))).toBeLessThanOrEqual(100);
  });

  test('O-DL-01: scan, write-back and change meet: one fire per slot, and the next is exactly one slot on', async () => {
    const world = await World.open(delivery);
    const { triggers } = world.stores;
    const slow = withTriggers(world, {
      async writeBack(shard, epoch, scores) {
        await world.clock.sleep(5_000);
        return await triggers.writeBack(shard, epoch, scores);
      },
      async scan(shard, request) {
        const result = await triggers.scan(shard, request);
        await world.clock.sleep(3_000);
        return result;
      },
    });
    const runner = world.runner({ stores: slow });
    const adopting = runner.adopt();
    await world.clock.advance(3_000);
    await adopting;
    for (let i = 0; i < 20; i += 1) await world.put(`j${i}`, { schedule: rate(17_000 + i * 100) });
    const startMs = world.nowMs;
    let [scanning, writing, reading] = [Promise.resolve(0), Promise.resolve(0), Promise.resolve(0)];
    for (let step = 0; step < 4_000; step += 1) {
      await world.clock.advance(50);
      if (step % 3 === 0) scanning = scanning.then(() => runner.scan(world.nowMs));
      if (step % 3 === 0) writing = writing.then(() => runner.flushWriteBacks());
      if (step % 50 === 0) await world.change(`j${(step / 50) % 20}`, { payload: `p${step}` });
      if (step % 3 === 0) reading = reading.then(() => runner.readFast(0));
      runner.tick(world.nowMs);
      await runner.settled();
      await runner.commitProgress();
      await world.clock.advance(0);
    }
    const fired = await world.fired();
    expect(new Set(fired.map(({ id }) => id)).size).toBe(fired.length);
    for (let i = 0; i < 20; i += 1) {
      const everyMs = 17_000 + i * 100;
      const first = Math.floor((startMs - T0) / everyMs) * everyMs + everyMs + T0;
      const times = await world.timesOf(`j${i}`);
      // A change that waits for a scan may leave the last slots for later; none is left out in between.
      expect(times).toEqual(every(everyMs, first, times.at(-1)!));
      expect(times.at(-1)!).toBeGreaterThan(world.nowMs - everyMs - 8_100);
    }
  });

  test('O-CR-18: a bad zone in the store stops that job, visibly, and no other', async () => {
    const world = await World.open(delivery);
    for (let i = 0; i < 50; i += 1) {
      await world.put(`good${i}`, { schedule: { kind: 'cron', expression: '* * * * *' } });
    }
    const bad: Schedule = { kind: 'cron', expression: '0 12 * * *', zone: 'America/New_Yrok' };
    const job = await world.put('bad', { schedule: rate(1_000) });
    // As an old version may have left it: straight into both stores.
    const stored = { ...job, schedule: bad, version: 2, position: { partition: 0, offset: 999 } };
    await world.stores.jobs.replaceMany([{ job: stored, expected: { version: 1, offset: job.position.offset } }]);
    const { encodeRecord, recordOf } = await import('../../../src/core/record.ts');
    const record = encodeRecord(recordOf(stored));
    await world.stores.triggers.add(0, [{ number: job.number, version: 2, score: T0 + 1_000, record }]);
    const runner = await world.adopted();
    await world.run(runner, 180_000, 100);
    for (let i = 0; i < 50; i += 1) {
      expect(await world.timesOf(`good${i}`)).toEqual([T0 + 60_000, T0 + 120_000, T0 + 180_000]);
    }
    const shown = await world.stores.jobs.get('c', 'bad');
    expect(shown?.state).toBe('error');
    expect(shown?.stateReason).toContain('America/New_Yrok');
    expect(await world.timesOf('bad')).toEqual([]);
    expect((await world.stores.triggers.count(0)).members).toBe(50);
  });

  test('O-KF-01: one record that is too large fails its own job only, with the reason; the others go out once', async () => {
    const world = await World.open(delivery);
    for (let i = 0; i < 499; i += 1)
      await world.put(`j${i}`, { schedule: once(T0 + 1_000), payload: 'x'.repeat(2_000) });
    await world.put('large', { schedule: once(T0 + 1_000), payload: 'x'.repeat(1_200_000) });
    const runner = await world.adopted();
    await world.run(runner, 3_000);
    const fired = await world.fired();
    expect(fired).toHaveLength(499);
    expect(new Set(fired.map(({ id }) => id)).size).toBe(499);
    const shown = await world.stores.jobs.get('c', 'large');
    expect(shown?.state).toBe('error');
    expect(shown?.stateReason).toContain('larger');
    expect(runner.watermark.t).toBeGreaterThan(T0 + 1_000);
  });

  test('O-KF-04: a missing topic: its jobs wait behind cursors, others go on, and all is paid when it is there', async () => {
    const world = await World.open(delivery);
    await world.cluster('b', false);
    let runner = await world.adopted();
    await world.put('a1', { schedule: rate(1_000) });
    await world.put('b1', { schedule: rate(1_000), cluster: 'b', misfire: { mode: 'all' } });
    await world.run(runner, 6_500);
    expect(await world.timesOf('a1')).toEqual(every(1_000, T0 + 1_000, T0 + 6_000));
    expect([...(await world.cursors()).values()].map(({ reason }) => reason)).toEqual(['topic-missing']);
    expect(runner.watermark.t).toBeGreaterThan(T0 + 5_000);
    // A new owner knows what is owed by the cursor alone.
    await runner.close();
    runner = await world.adopted();
    await world.run(runner, 2_000);
    await world.makeTopic('b');
    await world.run(runner, 3_000);
    expect(await world.timesOf('b1', 'b')).toEqual(every(1_000, T0 + 1_000, world.nowMs));
    expect(await world.timesOf('a1')).toEqual(every(1_000, T0 + 1_000, world.nowMs));
    expect([...(await world.cursors())]).toEqual([]);
    expect(world.told.of('topics_missing_total')).toBe(2);
    // Deleted and made again while sending.
    await world.stores.bus.deleteTopics(['t.b']);
    await world.run(runner, 2_000);
    await world.makeTopic('b');
    await world.run(runner, 2_000);
    expect(await world.timesOf('b1', 'b')).toEqual(every(1_000, world.nowMs - 3_500, world.nowMs));
  });

  test('the bus is away for a while: memory stays bounded, T stands, and then everything goes out in order', async () => {
    const world = await World.open(delivery);
    let away = false;
    let sends = 0;
    const { producer } = world;
    const unreliable: BusProducer = {
      async send(batch) {
        sends += 1;
        if (away) throw carillonError('unavailable', 'no broker');
        return await producer.send(batch);
      },
      close: () => producer.close(),
    };
    const stores: Stores = {
      ...world.stores,
      bus: {
        ...world.stores.bus,
        lane: async (id) => {
          const lane = await world.stores.bus.lane(id);
          return {
            id,
            close: () => lane.close(),
            async commit(batch, offsets) {
              sends += 1;
              if (away) throw carillonError('unavailable', 'no broker');
              await lane.commit(batch, offsets);
            },
          };
        },
        reader: (topic, partition, from) => world.stores.bus.reader(topic, partition, from),
        offsets: (topic) => world.stores.bus.offsets(topic),
        partitions: (topic) => world.stores.bus.partitions(topic),
      },
    };
    const runner = await world.adopted({ stores, producer: unreliable });
    for (let i = 0; i < 100; i += 1) await world.put(`j${i}`, { schedule: rate(1_000, T0 + i) });
    await world.run(runner, 2_500);
    const before = runner.watermark.t;
    away = true;
    sends = 0;
    for (let i = 0; i < 80; i += 1) {
      await world.clock.advance(100);
      await world.round(runner).catch(() => {});
    }
    expect(runner.watermark.t).toBe(before);
    // It rests between tries: doubled up to 2 s, and progress is tried beside them.
    expect(sends).toBeLessThan(200);
    away = false;
    await world.run(runner, 4_500);
    expect(runner.watermark.t).toBeGreaterThan(before + 10_000);
    for (let i = 0; i < 100; i += 7) {
      const times = await world.timesOf(`j${i}`);
      expect(times).toEqual(every(1_000, times[0]!, world.nowMs));
      expect(times[0]! - T0).toBeLessThanOrEqual(1_000 + i);
    }
  });

  test('a message of the fast path that cannot be applied at once is not skipped', async () => {
    const world = await World.open(delivery);
    const { catalog } = world.stores;
    let failures = 2;
    const stores = {
      ...world.stores,
      catalog: {
        ...catalog,
        cluster: async (name: string) => {
          if (failures-- > 0) throw carillonError('unavailable', 'no answer');
          return await catalog.cluster(name);
        },
      },
    };
    const runner = await world.adopted({ stores });
    await world.put('a', { schedule: once(T0 + 3_000) });
    for (let i = 0; i < 2; i += 1) await expect(world.through(runner.readFast(0))).rejects.toThrow('no answer');
    await world.put('b', { schedule: once(T0 + 3_000) });
    await world.run(runner, 5_000, 100);
    expect((await world.fired()).map(({ key }) => key).sort()).toEqual(['a', 'b']);
  });

  test('an owner that lost its lane and takes it again under its epoch goes on from its last progress', async () => {
    const world = await World.open(delivery);
    const first = await world.adopted({ epoch: 1, incarnation: 'w' });
    await world.put('a', { schedule: rate(1_000) });
    await world.run(first, 5_000, 100);
    await world.stores.bus.lane(`i/${delivery === 'exactly-once' ? 'e' : 'a'}0/0`);
    await world.clock.advance(1_000);
    await world.round(first).catch(() => {});
    await first.drain().catch(() => {});
    const again = await world.adopted({ epoch: 1, incarnation: 'w' });
    await world.run(again, 5_000, 100);
    const ids = (await world.fired()).map(({ id }) => id);
    // At-least-once: what was published after the last progress, at most, comes again.
    expect(ids.length - new Set(ids).size).toBeLessThanOrEqual(delivery === 'exactly-once' ? 0 : 2);
    expect(new Set(ids).size).toBe(11);
  });

  test('times of a version before, owed behind a cursor, outlive their owner', async () => {
    const world = await World.open(delivery, { topic: false });
    const runner = await world.adopted();
    await world.put('a', { schedule: rate(1_000), misfire: { mode: 'all' } });
    await world.run(runner, 3_500, 100);
    await world.change('a', { schedule: rate(1_000, T0 + 10_000) });
    await world.run(runner, 1_500, 100);
    runner.drop('crash');
    await world.makeTopic();
    const next = await world.adopted();
    await world.run(next, 9_000, 100);
    expect(await world.timesOf('a')).toEqual([
      ...every(1_000, T0 + 1_000, T0 + 3_000),
      ...every(1_000, T0 + 10_000, T0 + 14_000),
    ]);
  });

  test('what a version before published after the cut is known to an owner who goes on behind a cursor', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('a', { schedule: rate(1_000), misfire: { mode: 'all' } });
    await world.run(runner, 30_000, 100);
    // Its message comes late: it owes the half seconds since its cut, the old ones slowly.
    const misfire = { mode: 'all' as const, maxPerSecond: 4 };
    await world.change('a', { schedule: rate(500), misfire, cutMs: T0 + 5_200 });
    await world.run(runner, 1_000, 100);
    runner.drop('crash');
    const next = await world.adopted();
    await world.run(next, 500, 100);
    next.drop('crash');
    const last = await world.adopted();
    await world.run(last, 20_000, 100);
    const expected = [...every(1_000, T0 + 1_000, T0 + 5_000), ...every(500, T0 + 5_500, T0 + 51_500)];
    expect((await world.timesOf('a')).sort()).toEqual(expected);
    expect([...(await world.cursors()).values()]).toEqual([]);
  });

  test('what was published after the cut of a pause is known to the owner who resumes the job', async () => {
    const world = await World.open(delivery);
    const runner = await world.adopted();
    await world.put('a', { schedule: rate(1_000), misfire: { mode: 'all' } });
    await world.run(runner, 3_500, 100);
    const cutMs = T0 + 1_500;
    await world.change('a', { state: 'paused', cutMs });
    await world.run(runner, 1_000, 100);
    runner.drop('crash');
    const next = await world.adopted();
    await world.run(next, 500, 100);
    await world.change('a', { state: 'paused', cutMs, payload: 'saved while it is paused' });
    await world.run(next, 500, 100);
    next.drop('crash');
    const last = await world.adopted();
    await world.change('a', { state: 'enabled', cutMs });
    await world.run(last, 2_500, 100);
    expect((await world.timesOf('a')).sort()).toEqual(every(1_000, T0 + 1_000, T0 + 8_000));
    expect([...(await world.cursors()).values()]).toEqual([]);
  });

  test('a batch whose topic is missing asks nobody: its jobs stand behind their cursors before T passes them', async () => {
    const world = await World.open(delivery, { topic: false });
    const { bus } = world.stores;
    const runner = await world.adopted();
    await world.put('a', { schedule: rate(1_000), misfire: { mode: 'all' } });
    bus.partitions = () => Promise.reject(new Error('nobody is asked'));
    await world.through(runner.readFast(0));
    await world.through(runner.scan(world.nowMs));
    await world.clock.advance(1_000);
    runner.tick(world.nowMs);
    await runner.settled();
    await world.clock.advance(500);
    runner.tick(world.nowMs);
    await runner.settled();
    await runner.commitProgress();
    expect([...(await world.cursors()).values()].map(({ fromMs }) => fromMs)).toEqual([T0 + 999]);
    expect(runner.watermark.t).toBeGreaterThanOrEqual(T0 + 1_000);
  });
});
