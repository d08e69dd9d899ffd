import { describe, expect, test } from 'vitest';
import { JOBS, putJobs } from './bad-jobs.ts';
import { World } from './world.ts';

/** 1 % of the jobs go to a topic that is missing, another 1 % are larger than their topic allows. */
async function firing(delivery: 'at-least-once' | 'exactly-once', bad: boolean): Promise<World> {
  const world = await World.open(delivery);
  await putJobs(world, bad);
  const runner = await world.adopted();
  await world.run(runner, 5_000, 5);
  return world;
}

function latenesses(fired: readonly { key: string; nominalMs: number; atMs: number }[]): Map<string, number> {
  const good = fired.filter(({ key }) => key.startsWith('good'));
  return new Map(good.map(({ key, nominalMs, atMs }) => [`${key} ${nominalMs}`, atMs - nominalMs]));
}

describe.each(['at-least-once', 'exactly-once'] as const)('bad input, %s', (delivery) => {
  test('1 % of jobs without a topic and 1 % that are too large: the lateness of all others is what it is without them', async () => {
    const alone = latenesses(await (await firing(delivery, false)).fired());
    const world = await firing(delivery, true);
    expect(latenesses(await world.fired())).toEqual(alone);
    expect(alone.size).toBeGreaterThan(JOBS * 4);
    for (let i = 0; i < JOBS; i += 100) {
      expect((await world.stores.jobs.get('c', `large${i}`))?.state).toBe('error');
    }
    expect([...(await world.cursors()).values()].map(({ reason }) => reason)).toEqual(Array(3).fill('topic-missing'));
  });
});
