import { T0, type World } from './world.ts';

export const JOBS = 300;

/** Puts good jobs; with `bad`, 1 % as many go to a topic that is missing, and another 1 % are larger than their topic allows. */
export async function putJobs(world: World, bad: boolean): Promise<void> {
  await world.cluster('gone', false);
  for (let i = 0; i < JOBS; i += 1) {
    const schedule = { kind: 'rate' as const, everyMs: 1_000, anchorMs: T0 + i * 3 };
    await world.put(`good${i}`, { schedule });
    if (bad && i % 100 === 0) {
      await world.put(`gone${i}`, { schedule, cluster: 'gone' });
      await world.put(`large${i}`, { schedule, payload: 'x'.repeat(1_200_000) });
    }
  }
}
