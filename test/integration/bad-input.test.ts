import { describe, expect, test } from 'vitest';
import type { SlotRunner } from '../../src/engine/firing/slot.ts';
import type { Bus } from '../../src/ports/bus.ts';
import { JOBS, putJobs } from '../unit/engine/bad-jobs.ts';
import { World } from '../unit/engine/world.ts';
import { brokers, openBus, unique } from './kafka-opening.ts';
import { ownTopics } from './own-topics.ts';

const SECONDS = 4;
const STEP_MS = 5;

interface Run {
  world: World;
  runner: SlotRunner;
  /** When each trigger of a good job was acknowledged, by the clock that moves in steps. */
  ackedMs: Map<string, number>;
  /** Transactions and sends begun. */
  calls: number;
}

/** The owner of a slot on a real broker. With `bad`, 1 % of the jobs have no topic and 1 % are larger than theirs allows. */
async function firing(delivery: 'at-least-once' | 'exactly-once', bad: boolean): Promise<Run> {
  let calls = 0;
  const bus = counting(ownTopics(openBus(), unique('bad')), () => {
    calls += 1;
  });
  const world = await World.open(delivery, { bus, partitions: 1 });
  await putJobs(world, bad);
  const runner = await world.adopted();
  calls = 0;
  // The topic has one partition, so its records stand in the order in which they were acknowledged.
  const published: number[] = [];
  for (let ms = 0; ms < SECONDS * 1_000; ms += STEP_MS) {
    await world.run(runner, STEP_MS, STEP_MS);
    while (published.length < runner.published) published.push(world.nowMs);
  }
  const fired = await world.fired();
  expect(fired).toHaveLength(published.length);
  const ackedMs = new Map(fired.map(({ id }, i) => [id, published[i]!]));
  const keyed = fired.map(({ id, key, nominalMs }) => [`${key} ${nominalMs}`, ackedMs.get(id)!] as const);
  return { world, runner, ackedMs: new Map(keyed), calls };
}

function counting(bus: Bus, begun: () => void): Bus {
  return {
    ...bus,
    async producer() {
      const producer = await bus.producer();
      const { send } = producer;
      return Object.assign(producer, {
        send: (batch: Parameters<typeof send>[0]) => {
          begun();
          return send(batch);
        },
      });
    },
    async lane(id) {
      const lane = await bus.lane(id);
      const { commit } = lane;
      return Object.assign(lane, {
        commit: (...given: Parameters<typeof commit>) => {
          begun();
          return commit(...given);
        },
      });
    },
  };
}

describe.skipIf(brokers === null).each(['at-least-once', 'exactly-once'] as const)(
  'bad input, %s',
  { timeout: 180_000 },
  (delivery) => {
    test('1 % of jobs without a topic and 1 % that are too large: all others go out in the same step as without them', async () => {
      const alone = await firing(delivery, false);
      const { world, runner, ackedMs, calls } = await firing(delivery, true);
      expect(ackedMs).toEqual(alone.ackedMs);
      expect(ackedMs.size).toBeGreaterThan(JOBS * (SECONDS - 1));
      // Each bad job was in one call, which went again without it; then nobody asks the broker for them, but for the look each second.
      expect(calls).toBeLessThanOrEqual(alone.calls + 3 * 2 + SECONDS * 2);
      for (let i = 0; i < JOBS; i += 100) {
        const job = await world.stores.jobs.get('c', `large${i}`);
        expect(job?.state).toBe('error');
        expect(job?.stateReason).toContain('larger than its topic allows');
      }
      expect([...(await world.cursors()).values()].map(({ reason }) => reason)).toEqual(Array(3).fill('topic-missing'));
      await world.makeTopic('gone');
      await world.run(runner, 2_000, 100);
      expect(new Set((await world.fired('gone')).map(({ key }) => key)).size).toBe(3);
      expect((await world.cursors()).size).toBe(0);
    });
  },
);
