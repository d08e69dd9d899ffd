import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryFolder } from '../../deploy/local/instance.ts';
import { Installation } from '../installation/installation.ts';
import type { Grid } from '../judge/grid.ts';
import type { Counts } from '../judge/tally.ts';
import { gridLines, jobKey, payloadText } from '../load/job-lines.ts';
import { type Usage, watch } from '../measure/processes.ts';
import type { Options } from '../options.ts';
import { readWhole } from '../reader/reader.ts';
import { machine } from '../report/machine.ts';
import { round } from '../report/result.ts';
import { wholeSecond } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** Idle jobs are due a year from now: they stand in the stores and in no wheel. */
const IDLE_PERIOD_MS = 366 * 86_400_000;
const REST_S = 15;
/** Active jobs have keys of their own, behind all idle ones. */
const ACTIVE_FROM = 90_000_000;
/** How long registering the active jobs may take with what settles after it, and how far ahead workers look, in s. */
const REGISTER_S = 20;
const HORIZON_S = 17;
const SETTLE_MS = 5_000;
const DRAIN_MS = 15_000;

interface Round {
  counts: Counts;
  /** us of worker CPU per trigger, the rest taken off. */
  cost: number;
  /** Share of a core at rest, workers alone and all processes. */
  restWorker: number;
  rest: number;
  workerMb: number;
}

/**
 * Cost per trigger with few and with many idle jobs. Each level is an installation of its own with its data on the disk;
 * rounds take the levels in turn, so that what the machine does meanwhile meets all of them.
 */
export const scale: Bench = {
  what: 'cost of RATE triggers/s beside LEVELS idle jobs',
  defaults: { levels: [10_000, 100_000, 1_000_000], rate: 10_000, seconds: 20, rawS: 0, runs: 3 },
  ownRuns: true,
  async run(options, log) {
    const levels = options.levels.map((idle) => ({
      idle,
      dir: temporaryFolder(),
      rounds: [] as Round[],
      started: false,
    }));
    const removeAll = (): void => {
      for (const { dir } of levels) rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    };
    process.once('exit', removeAll);
    try {
      for (let turn = 0; turn < options.runs; turn += 1) {
        for (const level of levels) {
          log(`round ${turn + 1}, ${level.idle} idle jobs`);
          level.rounds.push(await oneRound(options, log, level, turn));
          log(JSON.stringify(level.rounds.at(-1)));
        }
      }
    } finally {
      process.off('exit', removeAll);
      removeAll();
    }
    const told = levels.map(({ idle, rounds }) => ({
      idle,
      cpu_us_per_trigger: round(median(rounds.map(({ cost }) => cost)), 3),
      spread: [Math.min(...rounds.map(({ cost }) => cost)), Math.max(...rounds.map(({ cost }) => cost))],
      rest_worker_share: round(median(rounds.map(({ restWorker }) => restWorker)), 4),
      rest_share: round(median(rounds.map(({ rest }) => rest)), 4),
      worker_mb: median(rounds.map(({ workerMb }) => workerMb)),
    }));
    const faults = levels.flatMap(({ rounds }) => rounds.map(({ counts }) => counts));
    const sum = (fault: 'fired' | 'lost' | 'duplicated' | 'early' | 'unexpected' | 'disordered'): number =>
      faults.reduce((total, counts) => total + counts[fault], 0);
    const costs = told.map(({ cpu_us_per_trigger }) => cpu_us_per_trigger);
    const memory = told.map(({ worker_mb }) => worker_mb);
    return {
      name: 'scale',
      config: options,
      machine: machine(),
      levels: told,
      fired: sum('fired'),
      lost: sum('lost'),
      duplicated: sum('duplicated'),
      early: sum('early'),
      unexpected: sum('unexpected'),
      disordered: sum('disordered'),
      cost_growth: round(Math.max(...costs) / Math.min(...costs), 3),
      worker_memory_growth: round(Math.max(...memory) / Math.min(...memory), 3),
      rest_cpu_share: told.at(-1)?.rest_worker_share ?? 0,
    };
  },
};

interface Level {
  idle: number;
  dir: string;
  started: boolean;
}

/** Starts the level's installation, measures it at rest and under load, and stops it again with its data kept. */
async function oneRound(options: Options, log: (line: string) => void, level: Level, turn: number): Promise<Round> {
  const installation = await Installation.servers(options, () => {}, level.dir);
  try {
    const client = level.started ? await installation.resumeRoles() : await installation.startRoles();
    if (!level.started) {
      await installation.register(client, () => idleLines(level.idle, options.payloadBytes));
      log(`${level.idle} idle jobs are there`);
      level.started = true;
    }
    // At rest the jobs that will fire are beyond the horizon: they stand in no wheel yet.
    const startMs = wholeSecond(Date.now() + (REGISTER_S + REST_S + HORIZON_S) * 1_000);
    const grid = activeGrid(options, startMs, ACTIVE_FROM + turn * options.rate);
    await installation.register(client, () => gridLines(grid, options.payloadBytes));
    await sleep(SETTLE_MS);
    const rest = await measure(installation, REST_S);
    await sleep(Math.max(0, startMs + options.warmUpS * 1_000 - Date.now()));
    const before = await installation.workerMetrics();
    const load = await measure(installation, options.seconds);
    const fired = (await installation.workerMetrics()).published - before.published;
    const counts = await judge(installation, grid, startMs + options.warmUpS * 1_000 - 1, options.seconds);
    const worker = ({ cpuMs }: Usage): number => cpuMs['worker-0'] ?? 0;
    const all = ({ cpuMs }: Usage): number => Object.values(cpuMs).reduce((a, b) => a + b, 0);
    const restMs = (worker(rest) / REST_S) * options.seconds;
    return {
      counts,
      cost: round(((worker(load) - restMs) * 1_000) / Math.max(1, fired), 3),
      restWorker: worker(rest) / REST_S / 1_000,
      rest: all(rest) / REST_S / 1_000,
      workerMb: load.rssMb['worker-0'] ?? 0,
    };
  } finally {
    await installation.stop();
  }
}

function activeGrid({ rate, seconds, warmUpS }: Options, startMs: number, firstKey: number): Grid {
  const endMs = startMs + (warmUpS + seconds + 5) * 1_000;
  return { jobs: rate, firstKey, periodMs: 1_000, anchorMs: startMs, phases: 'even', startMs, endMs };
}

/** Every occurrence of the active jobs in the measured span. */
async function judge(installation: Installation, grid: Grid, fromMs: number, seconds: number): Promise<Counts> {
  const toMs = fromMs + seconds * 1_000;
  const waited = performance.now();
  while ((await installation.workerMetrics()).leastProgressMs < toMs && performance.now() - waited < DRAIN_MS) {
    await sleep(200);
  }
  const { name: topic, partitions } = installation.topicPlan();
  const plan = { grid, fromMs, toMs, stepMs: 1_000 };
  return (await readWhole({ broker: installation.broker, topic, partitions, plan })).counts;
}

function* idleLines(jobs: number, payloadBytes: number): Generator<string, void, void> {
  for (let job = 0; job < jobs; job += 1) {
    const schedule = `{"kind":"rate","everyMs":${IDLE_PERIOD_MS}}`;
    yield `{"key":"${jobKey(job)}","schedule":${schedule},"payload":${payloadText(job, payloadBytes)}}`;
  }
}

async function measure(installation: Installation, seconds: number): Promise<Usage> {
  const watching = watch(installation.watched());
  await sleep(seconds * 1_000);
  return watching.stop();
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
}
