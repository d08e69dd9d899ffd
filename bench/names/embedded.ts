import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CarillonClient } from '../../src/sdk/index.ts';
import { type EmbeddedProcess, startEmbedded } from '../installation/embedded.ts';
import type { Grid } from '../judge/grid.ts';
import { type Counts, Tally } from '../judge/tally.ts';
import { gridLines } from '../load/job-lines.ts';
import { watch } from '../measure/processes.ts';
import { workerMetrics } from '../measure/worker-metrics.ts';
import type { Options } from '../options.ts';
import { readSqliteLog } from '../reader/sqlite-log.ts';
import { machine } from '../report/machine.ts';
import { round } from '../report/result.ts';
import { leadMs, wholeSecond } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

const CLUSTER = 'bench';
const TOPIC = 'carillon.triggers.bench';
const SETTINGS = ['--retention-bytes', String(32 * 1024 ** 3)];
/** When it is killed, as parts of the judged span, and how long it stays away, in ms. */
const KILLS = [0.2, 0.37, 0.61];
const AWAY_MS = 500;
/** After the span everything that was due is waited for, in ms. */
const DRAIN_MS = 12_000;

interface Run {
  tally: Tally;
  counts: Counts;
  cpuMs: number;
  rssMb: number;
}

/** Durable triggers on SQLite: once undisturbed, once with `kill -9` in between, which must lose and double nothing. */
export const embedded: Bench = {
  what: 'one process on SQLite: durable triggers, and kill -9 in between',
  defaults: { jobs: 100_000, seconds: 30, rawS: 0, delivery: 'exactly-once' },
  async run(options, log) {
    log('undisturbed');
    const calm = await run(options, log, []);
    log('with kill -9');
    const killed = await run(options, log, KILLS);
    const { counts, tally, cpuMs, rssMb } = calm;
    return {
      name: 'embedded',
      config: options,
      machine: machine(),
      offered_per_s: round(counts.expected / options.seconds, 1),
      fired_per_s: round(counts.fired / options.seconds, 1),
      fired: counts.fired,
      lost: counts.lost + killed.counts.lost,
      duplicated: counts.duplicated + killed.counts.duplicated,
      early: counts.early + killed.counts.early,
      unexpected: counts.unexpected + killed.counts.unexpected,
      disordered: counts.disordered + killed.counts.disordered,
      lateness_ms: tally.lateness.summary(),
      cpu_us_per_trigger: { process: round((cpuMs * 1_000) / Math.max(1, counts.fired), 3) },
      rss_mb: { process: rssMb },
      killed: {
        times: KILLS.length,
        fired: killed.counts.fired,
        lost: killed.counts.lost,
        duplicated: killed.counts.duplicated,
        late_most_ms: killed.tally.lateness.max,
      },
    };
  },
};

async function run(options: Options, log: (line: string) => void, kills: readonly number[]): Promise<Run> {
  mkdirSync('.servers', { recursive: true });
  const folder = mkdtempSync(join('.servers', 'embedded-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  process.once('exit', remove);
  let carillon: EmbeddedProcess | null = null;
  try {
    const settings = [...SETTINGS, '--wheels', String(options.wheels)];
    carillon = await startEmbedded(folder, settings);
    const client = new CarillonClient({ url: carillon.url, cluster: CLUSTER });
    const { partitions, envelope, delivery, jobs, periodMs, seconds } = options;
    await client.clusters.create({ name: CLUSTER, topic: TOPIC, partitions, envelope, delivery });
    const firstMs = wholeSecond(Date.now() + leadMs(options));
    const grid: Grid = { jobs, periodMs, anchorMs: firstMs, phases: 'even', startMs: firstMs };
    const operation = await client.jobs.bulk(() => gridLines(grid, options.payloadBytes));
    const { counts: registered } = await client.operations.wait(operation.key);
    log(`registered: ${JSON.stringify(registered)}`);
    const fromMs = wholeSecond(Math.max(firstMs + options.warmUpS * 1_000, Date.now() + 2_000)) - 1;
    const toMs = fromMs + seconds * 1_000;
    await sleep(fromMs - Date.now());
    const watching = watch([{ name: 'process', pid: carillon.pid }]);
    for (const part of kills) {
      await sleep(Math.max(0, fromMs + part * (toMs - fromMs) - Date.now()));
      await carillon.kill();
      await sleep(AWAY_MS);
      carillon = await startEmbedded(folder, settings);
      log('killed and started again');
    }
    await sleep(Math.max(0, toMs - Date.now()));
    const usage = watching.stop();
    await drained(carillon.url, toMs);
    await carillon.stop();
    carillon = null;
    const tally = new Tally({ grid, fromMs, toMs, stepMs: 1_000 });
    readSqliteLog(folder, TOPIC, tally);
    const counts = tally.finish();
    return { tally, counts, cpuMs: usage.cpuMs['process'] ?? 0, rssMb: usage.rssMb['process'] ?? 0 };
  } finally {
    await carillon?.kill();
    process.off('exit', remove);
    remove();
  }
}

async function drained(url: string, toMs: number): Promise<void> {
  const waited = performance.now();
  while (performance.now() - waited < DRAIN_MS) {
    if ((await workerMetrics([url])).leastProgressMs >= toMs) return;
    await sleep(200);
  }
}
