import autocannon from 'autocannon';
import { CLUSTER, Installation, jobCounts } from '../installation/installation.ts';
import { jobKey, payloadText } from '../load/job-lines.ts';
import { type Loaded, openLoop } from '../load/open-loop.ts';
import { cpuByKind, watch } from '../measure/processes.ts';
import { machine } from '../report/machine.ts';
import { round } from '../report/result.ts';
import { perTrigger } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** Of the open loop: more than are ever busy, so that a request seldom waits for one. */
const CONNECTIONS = 100;
const AUTOCANNON_CONNECTIONS = 50;
/** An answer, and nothing else, to a create. */
const CREATED = 201;

/**
 * Single creates at RATE per second, each for a job of its own, answered when it is applied. Request i is due at i / RATE and
 * its time counts from then (`load/open-loop.ts`): no coordinated omission. autocannon warms up with the same rate; it sends
 * the requests of each second back to back, and tells how that looks.
 */
export const api: Bench = {
  what: 'RATE single creates a second over HTTP',
  defaults: { rate: 2_000, seconds: 30, warmUpS: 15, rawS: 0, jobs: 0, payloadBytes: 120 },
  async run(options, log) {
    const installation = await Installation.servers(options, log);
    try {
      const client = await installation.startRoles();
      const { rate, warmUpS, seconds, payloadBytes } = options;
      let created = 0;
      const body = (): string => createBody(created++, payloadBytes);
      const warm = warmUpS > 0 ? await bursts(installation.url, rate, warmUpS, body) : null;
      log(`warm after ${created} creates`);
      const watching = watch(installation.watched());
      const request = (): { path: string; body: string } => ({ path: JOBS, body: body() });
      const loaded = await openLoop({ url: installation.url, rate, seconds, connections: CONNECTIONS, request });
      const { cpuMs, rssMb } = watching.stop();
      const answered = loaded.statuses.get(CREATED) ?? 0;
      const { enabled } = await jobCounts(client);
      return {
        name: 'api',
        config: options,
        machine: machine(),
        created_per_s: round(answered / seconds, 1),
        create_ms: quantiles(loaded),
        autocannon_ms: warm === null ? null : { p50: warm.latency.p50, p99: warm.latency.p99 },
        failed: loaded.sent - answered,
        jobs_in_store: enabled,
        cpu_us_per_create: perTrigger(cpuByKind(cpuMs), loaded.sent),
        rss_mb: rssMb,
      };
    } finally {
      await installation.stop();
    }
  },
};

const JOBS = `/v1/clusters/${CLUSTER}/jobs`;

/** The jobs are due in an hour: nothing fires meanwhile. */
function createBody(job: number, payloadBytes: number): string {
  const schedule = '{"kind":"rate","everyMs":3600000}';
  return `{"key":"${jobKey(job)}","schedule":${schedule},"payload":${payloadText(job, payloadBytes)}}`;
}

/** In ms, from when a request was due; nearest rank. */
function quantiles({ timesMs }: Loaded): Record<'p50' | 'p99' | 'p999' | 'max', number> {
  const sorted = timesMs.toSorted();
  const at = (q: number): number => round(sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? 0, 1);
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1) };
}

/** autocannon's rate: each connection sends its share of a second as fast as it is answered, and rests until the next. */
async function bursts(url: string, rate: number, seconds: number, body: () => string): Promise<autocannon.Result> {
  return await autocannon({
    url: `${url}${JOBS}`,
    connections: AUTOCANNON_CONNECTIONS,
    overallRate: rate,
    duration: seconds,
    // Its correction would add values for each ms of an answer's time, most of them short.
    ignoreCoordinatedOmission: true,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    requests: [{ setupRequest: (request) => ({ ...request, body: body() }) }],
  });
}
