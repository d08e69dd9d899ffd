import { setTimeout as sleep } from 'node:timers/promises';
import type { CarillonClient } from '../../src/sdk/index.ts';
import type { Segment } from '../judge.ts';
import type { DemoJob } from './jobs.ts';

/** Requests under way at once while jobs are changed. */
const CHANGES_AT_ONCE = 32;
/** I7: where the owner could not answer in time, its older version may go out for this long after the answer, in ms. */
const OWNER_UNHEARD_MS = 100;
export const ALWAYS = Number.POSITIVE_INFINITY;

const iso = (ms: number): string => new Date(ms).toISOString();

/**
 * Changes one job over the API, and answers the rules that it has then. The answer names the cut, the instant of the change.
 * Times of the old version in (cut, answer] may have been fired before its owner heard of the change; later ones only
 * within `OWNER_UNHEARD_MS`.
 */
async function change(client: CarillonClient, { form, oracle }: DemoJob, turn: number): Promise<Segment[]> {
  const { key } = form;
  const always: Segment = { schedule: oracle, afterMs: 0, upToMs: ALWAYS };
  const untilHeard = (afterMs: number): Segment => {
    return { schedule: oracle, afterMs, upToMs: Date.now() + OWNER_UNHEARD_MS, optional: true };
  };
  if (turn % 3 === 0) {
    const sentMs = Date.now();
    await client.jobs.delete(key);
    return [{ ...always, upToMs: sentMs }, untilHeard(sentMs)];
  }
  if (turn % 3 === 1) {
    const cutMs = Date.parse((await client.jobs.pause(key)).updatedAt);
    return [{ ...always, upToMs: cutMs }, untilHeard(cutMs)];
  }
  if (oracle.kind !== 'rate') {
    await client.jobs.patch(key, { payload: { changed: turn } });
    return [always];
  }
  const changed = { kind: 'rate', everyMs: oracle.everyMs + 1_250, anchorMs: oracle.anchorMs + 333 } as const;
  const schedule = { kind: 'rate', everyMs: changed.everyMs, anchor: iso(changed.anchorMs) } as const;
  const cutMs = Date.parse((await client.jobs.patch(key, { schedule })).updatedAt);
  return [{ ...always, upToMs: cutMs }, untilHeard(cutMs), { schedule: changed, afterMs: cutMs, upToMs: ALWAYS }];
}

export interface Changes {
  fromMs: number;
  toMs: number;
  /** One job in this many is changed, paused or deleted; one-shots, which may be finished by then, are left out. */
  oneIn: number;
}

/** Spreads the changes over the span; a few run at once. Answers how many were made. */
export async function changeSome(
  client: CarillonClient,
  jobs: readonly DemoJob[],
  rules: Map<string, Segment[]>,
  { fromMs, toMs, oneIn }: Changes,
): Promise<number> {
  // A finished one-shot cannot be paused, so one-shots are left out.
  const chosen = jobs.filter(({ oracle }, i) => i % oneIn === 7 % oneIn && oracle.kind !== 'once');
  let next = 0;
  const one = async (): Promise<void> => {
    for (let i = next++; i < chosen.length; i = next++) {
      const dueMs = fromMs + ((toMs - fromMs) * i) / chosen.length;
      await sleep(Math.max(0, dueMs - Date.now()));
      const job = chosen[i]!;
      rules.set(job.form.key, await change(client, job, i));
    }
  };
  await Promise.all(Array.from({ length: CHANGES_AT_ONCE }, one));
  return chosen.length;
}
