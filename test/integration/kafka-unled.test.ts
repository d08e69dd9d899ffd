import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Servers, startServers } from '../../deploy/local/instance.ts';
import { kafkaLeaders } from '../../deploy/local/leaders.ts';
import { killMember, startMember } from '../../deploy/local/members.ts';
import { every, rate, T0, World } from '../unit/engine/world.ts';
import { brokers, openBus } from './kafka-opening.ts';

/**
 * A partition whose only replica is gone. The clock of the owner moves in steps, each as long as the broker takes, so a step in which
 * a trigger goes out says whether anything held it up, however slow the machine.
 */
const PARTITIONS = 3;
const JOBS = 30;
const STEP_MS = 100;
const TEST_MS = 180_000;

describe.skipIf(brokers === null).each(['at-least-once', 'exactly-once'] as const)(
  'a partition without a leader, %s',
  (delivery) => {
    let servers: Servers<'kafka'>;
    beforeAll(async () => {
      const settings = { kafka: { brokers: 3 as const, heapMB: 256 } };
      servers = await startServers({ only: ['kafka'], temporary: true, small: true, settings });
    }, TEST_MS);
    afterAll(() => servers.stop());

    test(
      'its jobs wait behind cursors and are paid when it has one again; all others go on in their step',
      async () => {
        const options = { brokers: servers.kafka.brokers };
        await openBus({ ...options, replicationFactor: 1 }).ensureTopics([{ name: 't.c', partitions: PARTITIONS }]);
        const world = await World.open(delivery, { bus: openBus(options), partitions: PARTITIONS });
        for (let i = 0; i < JOBS; i += 1) {
          await world.put(`j${i}`, { schedule: rate(1_000, T0 + i * 10), misfire: { mode: 'all' } });
        }
        const runner = await world.adopted();
        await world.run(runner, 2_000, STEP_MS);
        const partitionOf = new Map((await world.fired()).map(({ key, partition }) => [key, partition]));
        expect(partitionOf.size).toBe(JOBS);
        const leaders = await kafkaLeaders({ dir: servers.dir }, 't.c');
        const gone = leaders[0]!;
        await killMember({ dir: servers.dir }, gone);
        const unled = (key: string): boolean => leaders[partitionOf.get(key)!] === gone;
        const waiting = [...partitionOf.keys()].filter(unled);
        expect(waiting.length).toBeGreaterThan(0);
        expect(waiting.length).toBeLessThan(JOBS);
        // What goes with the first of them waits until the brokers say that there is no leader; time stands meanwhile.
        while ((await world.cursors()).size === 0) await world.run(runner, STEP_MS, STEP_MS);
        const knownMs = world.nowMs;
        const before = runner.published;
        await world.run(runner, 3_000, STEP_MS);
        expect(runner.published - before).toBe((JOBS - waiting.length) * 3);
        expect((await world.cursors()).size).toBe(waiting.length);
        expect(runner.watermark.t).toBeGreaterThan(knownMs + 2_000);
        await startMember({ dir: servers.dir }, gone);
        while ((await world.cursors()).size > 0) await world.run(runner, STEP_MS, STEP_MS);
        const fired = await world.fired();
        for (let i = 0; i < JOBS; i += 1) {
          const times = fired.filter(({ key }) => key === `j${i}`).map(({ nominalMs }) => nominalMs);
          expect(times.sort(), `j${i}`).toEqual(every(1_000, times[0]!, world.nowMs));
        }
      },
      TEST_MS,
    );
  },
);
