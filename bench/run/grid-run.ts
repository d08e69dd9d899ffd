/**
 * The run that most benchmarks are: raw limit, roles, jobs of a grid through the bulk API, unjudged firing to warm up, the
 * judged span, and then the log is read and judged, when the reader takes no CPU from what is measured.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CarillonClient } from '../../src/sdk/index.ts';
import { Installation, type Registered } from '../installation/installation.ts';
import { deleteTopic, makeTopic } from '../installation/topic.ts';
import type { Grid } from '../judge/grid.ts';
import { Histogram } from '../judge/histogram.ts';
import { gridLines } from '../load/job-lines.ts';
import { type RawResult, rawProduce } from '../load/raw-produce.ts';
import { cpuByKind, type Usage, watch } from '../measure/processes.ts';
import { compareLateness, latenessBetween } from '../measure/worker-metrics.ts';
import type { Options } from '../options.ts';
import type { ReadVerdict } from '../reader/process.ts';
import { Reader } from '../reader/reader.ts';
import { machine } from '../report/machine.ts';
import { type LatenessSeries, type Result, round } from '../report/result.ts';

export interface GridRun {
  options: Options;
  /** The load once it is known when it may begin, UTC ms; `spanMs` is how long it is judged. */
  grid(firstMs: number): Grid;
  /** Width of the steps of lateness over time, in ms. */
  stepMs?: number;
  /** From the first trigger to the judged span, in ms; absent: the warm-up of the options. */
  warmUpMs?: number;
  log(line: string): void;
  /** Reads the log while the run goes on, for runs that the disk cannot hold: it keeps this many bytes, and turns. */
  live?: { retentionBytes: number; window: number };
  /** At the beginning of the judged span. */
  atStart?(installation: Installation): Promise<void>;
  /** After the span, before the workers end: what else is to be told of the run. */
  afterSpan?(ran: {
    installation: Installation;
    client: CarillonClient;
    fromMs: number;
    toMs: number;
  }): Promise<object>;
  /** Ends the judged span early, as when nothing can be held any more. Asked each second. */
  endEarly?(installation: Installation): Promise<boolean>;
}

export interface GridOutcome {
  result: Result;
  verdict: ReadVerdict;
  registered: Registered;
  grid: Grid;
  fromMs: number;
  toMs: number;
}

/**
 * The first trigger is due when registration at this many jobs/s has ended (`--lead` says otherwise). Where it is slower, jobs
 * fire while others are registered, and the span begins later.
 */
const REGISTER_PER_S = 10_000;
const LEAD_LEAST_S = 8;
/** After registration there is a pause of this long at least before the judged span, in ms. */
const CALM_MS = 3_000;
/** Everything that was due is waited for at most this long, in ms: what comes later is a misfire. */
const DRAIN_MS = 15_000;

export function leadMs({ jobs, leadS }: Options): number {
  return (leadS ?? LEAD_LEAST_S + jobs / REGISTER_PER_S) * 1_000;
}

export async function gridRun(run: GridRun): Promise<GridOutcome> {
  const { options, log } = run;
  const installation = await Installation.servers(options, log);
  try {
    const raw = options.rawS > 0 ? await rawLimit(installation, options) : null;
    if (raw !== null) log(`raw limit ${raw.per_s}/s, ${raw.mb_per_s} MB/s, ${raw.client_cpu_us} us of client CPU`);
    const client = await installation.startRoles(run.live?.retentionBytes ?? null);
    const firstMs = wholeSecond(Date.now() + leadMs(options));
    const grid = run.grid(firstMs);
    const registered = await installation.register(client, () => gridLines(grid, options.payloadBytes));
    const warmUpMs = run.warmUpMs ?? options.warmUpS * 1_000;
    const fromMs = wholeSecond(Math.max(firstMs + warmUpMs, Date.now() + CALM_MS)) - 1;
    const toMs = fromMs + options.seconds * 1_000;
    const window = run.live === undefined ? {} : { window: run.live.window };
    const plan = { grid, fromMs, toMs, stepMs: run.stepMs ?? 1_000, ...window };
    const { name, partitions } = installation.topicPlan();
    const order = { broker: installation.broker, topic: name, partitions, live: run.live !== undefined };
    const live =
      run.live === undefined ? null : new Reader({ ...order, plan }, (counts) => log(JSON.stringify(counts)));
    const measured = await span(run, installation, client, fromMs, toMs);
    const reader = live ?? new Reader({ ...order, plan: { ...plan, toMs: measured.toMs } });
    log('reading the log');
    const verdict = await reader.verdict().finally(() => reader.stop());
    const result = resultOf(run, verdict, measured, raw, registered);
    return { result, verdict, registered, grid, fromMs, toMs: measured.toMs };
  } finally {
    await installation.stop();
  }
}

export async function rawLimit(installation: Installation, options: Options): Promise<RawResult> {
  const { broker } = installation;
  const topic = { ...installation.topicPlan(), name: 'raw' };
  await makeTopic(broker, topic);
  const { envelope, payloadBytes, rawS: seconds } = options;
  const result = await rawProduce({ broker, topic, envelope, payloadBytes, seconds });
  await deleteTopic(broker, topic.name);
  return result;
}

export interface Measured {
  toMs: number;
  /** Length of the judged span, and of the time over which CPU was counted, in s: they differ by how long it took to ask. */
  spanS: number;
  seconds: number;
  usage: Usage;
  /** What `afterSpan` told. */
  more: object;
  own: Awaited<ReturnType<Installation['workerMetrics']>>['lateness'];
}

/** Watches the processes over the judged span, then waits until everything due in it is published. */
async function span(
  run: GridRun,
  installation: Installation,
  client: CarillonClient,
  fromMs: number,
  toMs: number,
): Promise<Measured> {
  await sleep(Math.max(0, fromMs - Date.now()));
  run.log(`judging for ${Math.round((toMs - fromMs) / 1_000)} s`);
  const watching = watch(installation.watched());
  const begun = performance.now();
  const before = await installation.workerMetrics();
  await run.atStart?.(installation);
  let endMs = toMs;
  while (Date.now() < endMs) {
    await sleep(Math.min(1_000, Math.max(0, endMs - Date.now())));
    if (run.endEarly !== undefined && Date.now() < endMs - 1_000 && (await run.endEarly(installation))) {
      endMs = wholeSecond(Date.now()) - 1;
    }
  }
  const usage = watching.stop();
  const seconds = (performance.now() - begun) / 1_000;
  const after = await installation.workerMetrics();
  const waited = performance.now();
  while (performance.now() - waited < DRAIN_MS) {
    if ((await installation.workerMetrics()).leastProgressMs >= endMs) break;
    await sleep(200);
  }
  const more = (await run.afterSpan?.({ installation, client, fromMs, toMs: endMs })) ?? {};
  await installation.stopWorkers();
  return {
    more,
    toMs: endMs,
    spanS: (endMs - fromMs) / 1_000,
    usage,
    seconds,
    own: latenessBetween(before.lateness, after.lateness),
  };
}

function resultOf(
  run: GridRun,
  verdict: ReadVerdict,
  { usage, seconds, spanS, own, more }: Measured,
  raw: RawResult | null,
  registered: Registered,
): Result {
  const { counts } = verdict;
  const lateness = revive(verdict.lateness);
  const perSecond = (n: number): number => round(n / spanS, 1);
  const compared = compareLateness(own, lateness);
  const fired = Math.max(1, counts.fired);
  return {
    name: '',
    config: run.options,
    machine: machine(),
    offered_per_s: perSecond(counts.expected),
    fired_per_s: perSecond(counts.fired),
    fired: counts.fired,
    lost: counts.lost,
    duplicated: counts.duplicated,
    early: counts.early,
    unexpected: counts.unexpected,
    disordered: counts.disordered,
    lateness_ms: lateness.summary(),
    ...(raw && { raw_limit_per_s: raw.per_s, ratio_to_raw: round(counts.fired / spanS / raw.per_s, 3) }),
    ...(raw && { raw_mb_per_s: raw.mb_per_s, raw_client_cpu_us: raw.client_cpu_us }),
    cpu_us_per_trigger: perTrigger(cpuByKind(usage.cpuMs), fired),
    cpu_cores: round(Object.values(usage.cpuMs).reduce((a, b) => a + b, 0) / seconds / 1_000),
    rss_mb: usage.rssMb,
    own_lateness_difference: round(compared.difference, 4),
    own_lateness: compared.rows,
    registered_per_s: registered.per_s,
    bytes_per_trigger: round(verdict.reading.bytes / Math.max(1, counts.read), 1),
    aborted_transactions: counts.aborted_transactions,
    ...more,
    series: seriesOf(verdict, lateness, run.stepMs ?? 1_000),
  };
}

/** CPU in us per trigger by kind of process. */
export function perTrigger(cpuMs: Readonly<Record<string, number>>, fired: number): Record<string, number> {
  return Object.fromEntries(Object.entries(cpuMs).map(([kind, ms]) => [kind, round((ms * 1_000) / fired, 3)]));
}

export function revive(plain: ReadVerdict['lateness']): Histogram {
  const histogram = new Histogram();
  histogram.merge(plain);
  return histogram;
}

export function seriesOf(verdict: ReadVerdict, whole: Histogram, stepMs: number): LatenessSeries {
  const steps = verdict.series.map((one) => revive(one));
  const distribution: [number, number][] = [];
  whole.counts.forEach((n, ms) => {
    if (n > 0) distribution.push([ms, n]);
  });
  return {
    step_ms: stepMs,
    p50: steps.map((step) => step.summary().p50),
    p99: steps.map((step) => step.summary().p99),
    max: steps.map((step) => step.max),
    fired: steps.map((step) => step.count),
    distribution,
  };
}

/** The next whole second, UTC ms. */
export function wholeSecond(ms: number): number {
  return Math.ceil(ms / 1_000) * 1_000;
}
