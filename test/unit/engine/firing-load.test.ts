import { describe, expect, test } from 'vitest';
import type { Job } from '../../../src/core/job.ts';
import { LIMITS } from '../../../src/core/limits.ts';
import { encodeRecord, recordOf } from '../../../src/core/record.ts';
import type { Schedule } from '../../../src/core/schedule/types.ts';
import { once, rate, T0, World } from './world.ts';

/** Puts many jobs straight into both stores, as a scan finds them. */
async function place(world: World, shard: number, count: number, scheduleOf: (i: number) => [Schedule, number]) {
  const jobs = Array.from({ length: count }, (_, i): [Job, number] => {
    const [schedule, score] = scheduleOf(i);
    const job: Job = {
      cluster: 'c',
      key: `s${shard}-${i}`,
      version: 1,
      state: 'enabled',
      shard,
      number: 1_000_000 + i,
      createdMs: T0,
      updatedMs: T0,
      cutMs: T0,
      schedule,
      bounds: {},
      misfire: { mode: 'once' },
      payload: '{}',
      contentType: 'application/json',
      position: { partition: 0, offset: i },
      lastChange: { id: `r${i}`, result: 'created' },
    };
    return [job, score];
  });
  await world.stores.jobs.insertMany(jobs.map(([job]) => job));
  await world.stores.triggers.add(
    shard,
    jobs.map(([job, score]) => ({ number: job.number, version: 1, score, record: encodeRecord(recordOf(job)) })),
  );
}

describe.each(['at-least-once', 'exactly-once'] as const)('load, %s', (delivery) => {
  test('O-SC-01: very many jobs due at the same second: bounded steps, others are not starved, all fire once', async () => {
    const world = await World.open(delivery);
    // More than one commit of an exactly-once slot takes.
    const [length, each] = delivery === 'exactly-once' ? [12, 9_000] : [10, 6_000];
    const shards = Array.from({ length }, (_, i) => i + 1);
    await world.stores.shards.create(shards.map((id) => world.shard(id)));
    for (const shard of shards) await world.makeWhole(shard);
    const dueMs = T0 + 10_000;
    for (const shard of shards) await place(world, shard, each, () => [once(dueMs), dueMs]);
    await place(world, 0, 100, (i) => [rate(60_000, dueMs - 50 + i), dueMs - 50 + i]);
    const runner = await world.adopted();
    await world.run(runner, 9_900, 100);
    let most = 0;
    for (let step = 0; step < 30; step += 1) {
      await world.clock.advance(10);
      if (step === 12) await world.put('during', { schedule: once(world.nowMs + 2_000) });
      await world.through(runner.readFast(0));
      most = Math.max(most, runner.tick(world.nowMs));
      await runner.settled();
      await runner.commitProgress();
    }
    const batches = delivery === 'exactly-once' ? LIMITS.commitBatches : LIMITS.publishBatchesInFlight;
    const bound = batches * LIMITS.publishBatchTriggers;
    expect(most).toBeLessThanOrEqual(bound);
    await world.run(runner, 3_000, 50);
    const fired = await world.fired();
    expect(fired).toHaveLength(length * each + 101);
    expect(new Set(fired.map(({ id }) => id)).size).toBe(length * each + 101);
    const others = fired.filter(({ key }) => key.startsWith('s0-') || key === 'during');
    expect(others).toHaveLength(101);
    for (const { atMs, nominalMs } of others) expect(atMs - nominalMs).toBeLessThan(2_000);
    // In an exactly-once slot the rest of a tick that is too large for one commit waits behind cursors, which end.
    expect(world.told.of('cursors_opened_total/behind') > 0).toBe(delivery === 'exactly-once');
    expect((await world.cursors()).size).toBe(0);
    // Finished one-shots are out of memory and out of the store; drain it whole.
    for (let i = 0; i < 50 && runner.entries > 100; i += 1) await world.run(runner, 100, 50);
    for (const shard of shards) expect(await world.stores.triggers.count(shard)).toEqual({ members: 0, finished: 0 });
  });

  test('O-DL-02: killed after its write-back and before publish, or after publish and before write-back: nothing is lost', async () => {
    for (let turn = 0; turn < 20; turn += 1) {
      const world = await World.open(delivery);
      await place(world, 0, 500, (i) => {
        const at = T0 + 1_000 + ((i * 37) % 5_000);
        return [i % 2 === 0 ? once(at) : rate(60_000, at), at];
      });
      const first = await world.adopted();
      await world.run(first, 2_000 + turn * 100, 20);
      await world.clock.advance(40);
      if (turn % 2 === 0) await world.through(first.flushWriteBacks());
      if (turn % 2 === 1) {
        first.tick(world.nowMs);
        if (turn % 4 === 1) await first.settled();
      }
      first.drop('killed');
      await world.clock.advance(2_500);
      const second = await world.adopted();
      await world.run(second, 5_000, 20);
      const ids = (await world.fired()).map(({ id }) => id);
      expect(new Set(ids).size).toBe(500);
      // A second delivery has the same id; exactly-once has none.
      if (delivery === 'exactly-once' || turn % 2 === 0) expect(ids).toHaveLength(500);
      const lates = (await world.fired()).map(({ atMs, nominalMs }) => atMs - nominalMs);
      expect(Math.max(...lates)).toBeLessThan(3_000);
    }
  });

  test('a wheel that stood still for longer than a period catches up in order, without cursors, and also after a crash', async () => {
    for (let turn = 0; turn < 8; turn += 1) {
      const world = await World.open(delivery);
      // One period is twice the other: what comes second of the one lies before what comes first of the other.
      const periodOf = (i: number): number => (i % 2 === 0 ? 600 : 1_200);
      const firstOf = (i: number): number => T0 + 1_000 + ((i * 7) % periodOf(i));
      await place(world, 0, 1_000, (i) => [rate(periodOf(i), firstOf(i)), firstOf(i)]);
      let runner = await world.adopted();
      await world.run(runner, 3_000, 20);
      await world.clock.advance(1_900);
      for (let round = 0; round < turn; round += 1) {
        runner.tick(world.nowMs);
        await runner.settled();
      }
      if (turn % 2 === 1) {
        runner.drop('killed');
        runner = await world.adopted();
      }
      await world.run(runner, 1_000, 20);
      const fired = await world.fired();
      const owed = Array.from({ length: 1_000 }, (_, i) => {
        return Math.floor((world.nowMs - firstOf(i)) / periodOf(i)) + 1;
      }).reduce((sum, n) => sum + n, 0);
      expect(new Set(fired.map(({ id }) => id)).size).toBe(owed);
      if (delivery === 'exactly-once' || turn % 2 === 0) expect(fired).toHaveLength(owed);
      const last = new Map<string, number>();
      for (const { key, nominalMs } of turn % 2 === 0 ? fired : []) {
        expect(nominalMs).toBeGreaterThan(last.get(key) ?? 0);
        last.set(key, nominalMs);
      }
      expect(world.told.of('cursors_opened_total/behind')).toBe(0);
    }
  });
});
