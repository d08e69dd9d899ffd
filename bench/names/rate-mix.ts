import { setTimeout as sleep } from 'node:timers/promises';
import type { CarillonClient } from '../../src/sdk/index.ts';
import { ALWAYS, changeSome } from '../demo/changes.ts';
import { type DemoJob, demoJobs } from '../demo/jobs.ts';
import { Installation } from '../installation/installation.ts';
import { JudgeSink } from '../judge/judge-sink.ts';
import type { Segment, Verdict } from '../judge.ts';
import { cpuByKind, type Usage, watch } from '../measure/processes.ts';
import type { Options } from '../options.ts';
import { LogReader } from '../reader/log-reader.ts';
import { machine } from '../report/machine.ts';
import { round } from '../report/result.ts';
import { leadMs, perTrigger, wholeSecond } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** A tenth of the jobs are one-shots, which are left out: so 5 % of all are changed in a minute. */
const CHANGED_ONE_IN = 18;
const DELAYS_ONE_IN = 2;
const SETTLE_MS = 1_500;
const DRAIN_MS = 15_000;

/** All kinds of jobs in 100 zones, 5 % of them changed, paused or deleted per minute while they fire. */
export const rateMix: Bench = {
  what: 'cron, rate, one-shot and delay in 100 zones, 5 % of the jobs changed per minute',
  defaults: { jobs: 100_000, seconds: 60, rawS: 0 },
  async run(options, log) {
    const installation = await Installation.servers(options, log);
    try {
      const client = await installation.startRoles();
      const fromMs = wholeSecond(Date.now() + 2 * leadMs(options));
      const toMs = fromMs + options.seconds * 1_000;
      const jobs = mixedJobs(options, fromMs, toMs);
      const registered = await installation.register(client, () => jobs.map(({ form }) => form));
      await readDelays(client, jobs);
      if (Date.now() > fromMs) throw new Error('registration took longer than it may: give --lead seconds');

      await sleep(fromMs - Date.now());
      log(`judging for ${options.seconds} s`);
      const watching = watch(installation.watched());
      const rules = new Map<string, Segment[]>(
        jobs.map(({ form, oracle }) => [form.key, [{ schedule: oracle, afterMs: 0, upToMs: ALWAYS }]]),
      );
      const oneIn = Math.max(1, Math.round((CHANGED_ONE_IN * 60) / options.seconds));
      const changes = await changeSome(client, jobs, rules, { fromMs, toMs, oneIn });
      await sleep(Math.max(0, toMs - Date.now()));
      const usage = watching.stop();
      await drained(installation, toMs);
      await installation.stopWorkers();
      log('reading the log');
      const { verdict, unknown } = await judged(installation, jobs, rules, fromMs, toMs);
      return { ...figures(options, verdict, unknown, usage), changes, registered_per_s: registered.per_s };
    } finally {
      await installation.stop();
    }
  },
};

/** The demo's mix; every second one-shot is given as a delay. */
function mixedJobs({ jobs }: Options, fromMs: number, toMs: number): DemoJob[] {
  const periodsMs = [4_000, 5_000, 7_500, 10_000, 12_000];
  const all = demoJobs({ jobs, fromMs, toMs, periodsMs, cronMaxPerSecond: 0.11, seed: 1 });
  let once = 0;
  all.forEach((job, i) => {
    if (job.oracle.kind !== 'once' || once++ % DELAYS_ONE_IN !== 0) return;
    job.form = { ...job.form, key: `delay/${i}`, schedule: { kind: 'delay', delayMs: job.oracle.atMs - Date.now() } };
  });
  return all;
}

/** A delay counts from its request: the API answers the time that it came to. */
async function readDelays(client: CarillonClient, jobs: readonly DemoJob[]): Promise<void> {
  const byKey = new Map(jobs.map((job) => [job.form.key, job]));
  for await (const { key, schedule } of client.jobs.list({ prefix: 'delay/' })) {
    if (schedule.kind !== 'once') throw new Error(`${key} is ${schedule.kind}`);
    byKey.get(key)!.oracle = { kind: 'once', atMs: Date.parse(schedule.at) };
  }
}

async function drained(installation: Installation, toMs: number): Promise<void> {
  const waited = performance.now();
  await sleep(SETTLE_MS);
  while (performance.now() - waited < DRAIN_MS) {
    if ((await installation.workerMetrics()).leastProgressMs >= toMs) return;
    await sleep(200);
  }
}

async function judged(
  installation: Installation,
  jobs: readonly DemoJob[],
  rules: Map<string, Segment[]>,
  fromMs: number,
  toMs: number,
): Promise<{ verdict: Verdict; unknown: number }> {
  const sink = new JudgeSink(jobs.map(({ form }) => form.key));
  const { name, partitions } = installation.topicPlan();
  const reader = await LogReader.open(installation.broker, name, partitions, sink);
  await reader.readAll();
  reader.close();
  return { verdict: sink.judge.verdict(rules, fromMs, toMs), unknown: sink.unknown };
}

function figures(options: Options, verdict: Verdict, unknown: number, usage: Usage) {
  const { fired, expected, lost, duplicated, early, unexpected, lateness_ms } = verdict;
  return {
    name: 'rate-mix',
    config: options,
    machine: machine(),
    offered_per_s: round(expected / options.seconds, 1),
    fired_per_s: round(fired / options.seconds, 1),
    fired,
    lost,
    duplicated,
    early,
    unexpected: unexpected + unknown,
    lateness_ms,
    cpu_us_per_trigger: perTrigger(cpuByKind(usage.cpuMs), Math.max(1, fired)),
    rss_mb: usage.rssMb,
  };
}
