/** One stage: servers and processes, the load, and faults one after the other at times by the seed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { random } from '../../bench/demo/jobs.ts';
import type { Fault, Told } from './fault.ts';
import { CALM } from './limits.ts';
import { rateLines, ratesOf } from './load.ts';
import { heldBack } from './offsets.ts';
import { Reading } from './reading.ts';
import { type FaultResult, type Judging, merged, NOTHING, resultOf, type Stroke, writesResult } from './result.ts';
import type { Stage } from './stages.ts';
import { stepped } from './tally.ts';
import { type Delivery, PARTITIONS, TOPIC, World } from './world.ts';
import { Writes } from './writes.ts';

export interface StageOptions {
  seed: number;
  jobs: number;
  perSecond: number;
  deliveries: readonly Delivery[];
  /** Faults go on for at least this long, in ms, and until each was dealt once. */
  forMs: number;
  scale: number;
  slack: number;
  oneShotsPerSecond: number;
  log: (line: string) => void;
}

export interface StageResult {
  delivery: Delivery;
  expected: number;
  seconds: number;
  results: FaultResult[];
  /** Faults that were not dealt, since the world was broken before. */
  left: Fault[];
}

/** Calm before a fault, from and to, in ms. */
const CALM_MS = [3_000, 6_000] as const;
/** At-least-once may repeat what was published shortly before a crash: that belongs to the fault, in ms. */
const BEFORE_MS = 1_000;
/** What comes due in this time after a repair belongs to the fault too, in ms. */
const TAIL_MS = 2_000;
/** What was not read after this time is lost, in ms. */
const LOST_AFTER_MS = 60_000;
/** A transaction that is on the way ends within this time: its timeout is 5 s, in ms. */
const HELD_MS = 15_000;
/** The reader has room for so much more than the planned time, in ms. */
const MORE_MS = 900_000;

export async function runStage(stage: Stage, options: StageOptions): Promise<StageResult> {
  const { seed, jobs, perSecond, forMs, log } = options;
  const next = random(seed);
  log(`stage ${stage.name}`);
  const { servers, proxied = false } = stage;
  const world = await World.begin({ ...options, servers, proxied, random: next });
  try {
    const load = { jobs, perSecond, seed, anchorMs: Date.now() };
    await register(world, load);
    const fromMs = stepped(Date.now() + 1_000);
    const { brokers } = world.cluster.servers.kafka;
    const reading = new Reading({
      brokers,
      topic: TOPIC,
      partitions: PARTITIONS,
      load,
      fromMs,
      spanMs: forMs + MORE_MS,
    });
    world.reading = reading;
    await reading.ready();
    const writes = new Writes(() => world.living('api')[0]?.url ?? world.cluster.url, 'chaos', next);
    await world.whole();
    writes.start();
    await sleep(CALM_MS[1]);
    const { strokes, left } = await strikeAll(stage.faults, world, reading, forMs);
    await writes.stop();
    const toMs = stepped(Date.now());
    const whole = await reading.complete(fromMs, toMs, LOST_AFTER_MS);
    log(`  the whole stage: ${whole.expected} due, ${whole.lost} lost, ${whole.duplicatedCopies} copies`);
    // Copies may have come after a fault was judged: each is judged again at the end.
    const results: FaultResult[] = [];
    for (const { fromMs: begunMs, toMs: endedMs, ...stroke } of strokes) {
      results.push(resultOf({ ...stroke, verdict: await reading.verdict(begunMs, endedMs) }, world.judging));
    }
    results.push(await calmResult(reading, fromMs, toMs, strokes, world.judging));
    const written = await writes.verdict(reading, world.client, LOST_AFTER_MS);
    log(`  ${written.answered} writes were answered, ${written.lost} lost ${written.missing.join(', ')}`);
    results.push(writesResult(written, world.delivery));
    results.push(await endResult(brokers));
    const seconds = (toMs - fromMs) / 1_000;
    return { delivery: world.delivery, expected: whole.expected, seconds, results, left };
  } finally {
    await world.stop();
  }
}

async function register(world: World, load: Parameters<typeof ratesOf>[0]): Promise<void> {
  const begun = performance.now();
  const { key } = await world.client.jobs.bulk(() => rateLines(ratesOf(load)));
  const { counts } = await world.client.operations.wait(key);
  if (counts.created !== load.jobs) throw new Error(`jobs were not registered: ${JSON.stringify(counts)}`);
  world.options.log(`${load.jobs} jobs registered in ${((performance.now() - begun) / 1_000).toFixed(1)} s`);
}

interface Judged extends Omit<Stroke, 'verdict'> {
  fromMs: number;
  toMs: number;
}

async function strikeAll(
  faults: readonly Fault[],
  world: World,
  reading: Reading,
  forMs: number,
): Promise<{ strokes: Judged[]; left: Fault[] }> {
  const strokes: Judged[] = [];
  const endMs = performance.now() + forMs;
  let round: Fault[] = [];
  for (let dealt = 0; dealt < faults.length || performance.now() < endMs; dealt += 1) {
    if (round.length === 0) round = shuffled(faults, world.random);
    const fault = round.pop()!;
    await sleep(CALM_MS[0] + world.random() * (CALM_MS[1] - CALM_MS[0]));
    const stroke = await strike(fault, world, reading);
    strokes.push(stroke);
    if (
      !(await world.whole().then(
        () => true,
        () => false,
      ))
    ) {
      world.options.log('  the installation does not recover: the stage ends here');
      return { strokes, left: dealt < faults.length ? round : [] };
    }
  }
  return { strokes, left: [] };
}

async function strike(fault: Fault, world: World, reading: Reading): Promise<Judged> {
  const { log } = world.options;
  log(fault.name);
  world.struckMs = 0;
  const fromMs = stepped(Date.now() - BEFORE_MS);
  let told: Told | undefined;
  try {
    told = await fault.strike(world);
  } catch (error) {
    told = { wrong: [error instanceof Error ? error.message : String(error)] };
  }
  await sleep(TAIL_MS);
  const toMs = stepped(Date.now());
  const verdict = await reading.complete(fromMs, toMs, LOST_AFTER_MS);
  const struckMs = world.struckMs === 0 ? fromMs : world.struckMs;
  const { name, wrong, max_lateness_ms, ...counts } = resultOf({ fault, told, struckMs, verdict }, world.judging);
  log(
    `  ${name} took ${toMs - fromMs} ms; lost ${counts.lost}, copies ${counts.duplicated_copies}, early ${counts.early}, ` +
      `max ${max_lateness_ms} ms, recovered ${counts.recovered_ms} ms${wrong.map((one) => `; ${one}`).join('')}`,
  );
  return { fault, told, struckMs, fromMs, toMs };
}

/** LSO = HW: at the end no transaction is left open, on which readers would wait. */
async function endResult(brokers: readonly string[]): Promise<FaultResult> {
  const held = await heldBack(brokers, HELD_MS).catch((error: unknown) => [String(error)]);
  return { ...NOTHING, name: 'readable-to-the-end', wrong: held.map((one) => `held back from readers: ${one}`) };
}

/** The time between the faults, as a line of its own: nothing at all may be wrong in it. */
async function calmResult(
  reading: Reading,
  fromMs: number,
  toMs: number,
  strokes: readonly Judged[],
  judging: Judging,
): Promise<FaultResult> {
  const results: FaultResult[] = [];
  const fault: Fault = { name: 'calm', bounds: CALM, strike: async () => undefined };
  let sinceMs = fromMs;
  for (const upToMs of [...strokes.map((stroke) => stroke.fromMs), toMs]) {
    const verdict = await reading.verdict(sinceMs, upToMs);
    results.push(resultOf({ fault, told: undefined, struckMs: sinceMs, verdict }, judging));
    sinceMs = strokes[results.length - 1]?.toMs ?? toMs;
  }
  return { ...merged(results)[0]!, recovered_ms: 0 };
}

function shuffled<T>(list: readonly T[], next: () => number): T[] {
  const out = [...list];
  for (let i = out.length - 1; i > 0; i -= 1) {
    const j = Math.floor(next() * (i + 1));
    [out[i], out[j]] = [out[j]!, out[i]!];
  }
  return out;
}
