import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, Told } from '../fault.ts';
import { LIMITS } from '../limits.ts';
import { ONCE_FROM } from '../tally.ts';
import type { World } from '../world.ts';

/** Numbers of these jobs; those below are the writes'. */
const FIRST = ONCE_FROM + 500_000_000;
const SPAN_MS = 10_000;
const EVERY_MS = 100;
/** How wrong the clock of the API is, in ms: a little less than what is refused at its start, which measures it in doubt. */
const SKEW_MS = 490;
const LONGEST_DELAY_MS = 300;
const AGAIN_MS = 200;
const LOST_AFTER_MS = 60_000;

let next = FIRST;

/** Uploads again under the same name until it is answered that all lines are taken. */
async function upload(world: World, body: string, name: string): Promise<void> {
  await world.until(`the upload ${name} is answered`, async () => {
    const { url } = world.living('api').at(-1) ?? {};
    const response = await fetch(`${url}/v1/clusters/chaos/jobs:bulk`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson', 'idempotency-key': name },
      body,
      signal: AbortSignal.timeout(20_000),
    }).catch(() => null);
    if (response === null) await sleep(AGAIN_MS);
    return response?.status === 202;
  });
}

interface Poured {
  from: number;
  upTo: number;
  /** Names of the uploads. */
  names: string[];
}

async function pour(world: World): Promise<Poured> {
  const from = next;
  const lines = Math.round((world.options.oneShotsPerSecond * EVERY_MS) / 1_000);
  const uploads: Promise<void>[] = [];
  const names: string[] = [];
  const beginMs = performance.now();
  for (let piece = 0; piece * EVERY_MS < SPAN_MS; piece += 1) {
    const jobs = Array.from({ length: lines }, () => {
      const delayMs = Math.floor(world.random() * LONGEST_DELAY_MS);
      const key = `shot-${next}`;
      next += 1;
      return `{"key":"${key}","schedule":{"kind":"delay","delayMs":${delayMs}}}\n`;
    });
    const name = `shots-${from}-${piece}`;
    names.push(name);
    uploads.push(upload(world, jobs.join(''), name));
    await sleep(Math.max(0, beginMs + (piece + 1) * EVERY_MS - performance.now()));
  }
  await Promise.all(uploads);
  return { from, upTo: next, names };
}

/** Lines that were taken and then refused: the load is such that none may be. */
async function refusals(world: World, names: readonly string[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const name of names) {
    const { errors } = await world.client.operations.wait(name, { timeoutMs: LOST_AFTER_MS });
    if (errors[0] !== undefined) wrong.push(`${errors.length} lines of ${name} were refused: ${errors[0].detail}`);
  }
  return wrong;
}

async function judge(world: World, { from, upTo, names }: Poured): Promise<Told> {
  const wrong = await refusals(world, names);
  const end = performance.now() + LOST_AFTER_MS;
  let seen = await world.reading.once(from, upTo);
  while (seen.size < upTo - from && performance.now() < end) {
    await sleep(500);
    seen = await world.reading.once(from, upTo);
  }
  const all = [...seen.values()];
  const again = all.filter(({ copies }) => copies > 1);
  const late = all.map(({ atMs, nominalMs }) => atMs - nominalMs);
  return {
    counts: {
      lost: upTo - from - seen.size,
      duplicatedIds: again.length,
      duplicatedCopies: again.reduce((sum, { copies }) => sum + copies - 1, 0),
      early: late.filter((ms) => ms < 0).length,
    },
    wrong,
    notes: [`${upTo - from} one-shots, at most ${late.reduce((a, b) => Math.max(a, b), 0)} ms after their time`],
  };
}

const killed: Fault = {
  name: 'killed-under-one-shots',
  bounds: LIMITS.oneShots,
  async strike(world) {
    const skewMs = world.random() < 0.5 ? SKEW_MS : -SKEW_MS;
    const skewed = await world.start('api', { CARILLON_CLOCK_OFFSET_MS: String(skewMs) });
    const poured = pour(world);
    poured.catch(() => {});
    await sleep(2_000 + world.random() * (SPAN_MS - 4_000));
    world.stroke(`under one-shots, API clock ${skewMs} ms off`);
    await world.kill(world.pick(world.living('worker')));
    if (world.random() < 0.5) await world.kill(skewed);
    const told = await judge(world, await poured);
    if (world.living('api').includes(skewed)) await world.end(skewed);
    await world.whole();
    return told;
  },
};

export const oneShotFaults: readonly Fault[] = [killed];
