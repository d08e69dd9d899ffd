import autocannon from 'autocannon';
import { CLUSTER, Installation, jobCounts } from '../installation/installation.ts';
import { jobKey, payloadText } from '../load/job-lines.ts';
import { cpuByKind, watch } from '../measure/processes.ts';
import { machine } from '../report/machine.ts';
import { round } from '../report/result.ts';
import { perTrigger } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

const CONNECTIONS = 50;

/**
 * Single creates at RATE per second, each for a job of its own, answered when it is applied. autocannon counts a request
 * from when it was to be sent, so one that waits for a slow answer before it is late, too.
 */
export const api: Bench = {
  what: 'RATE single creates a second over HTTP',
  defaults: { rate: 2_000, seconds: 30, warmUpS: 10, rawS: 0, jobs: 0, payloadBytes: 120 },
  async run(options, log) {
    const installation = await Installation.servers(options, log);
    try {
      const client = await installation.startRoles();
      const created = { n: 0 };
      const { rate, warmUpS, seconds, payloadBytes } = options;
      if (warmUpS > 0) await creates(installation.url, { rate, seconds: warmUpS, payloadBytes, created });
      log(`warm after ${created.n} creates`);
      const watching = watch(installation.watched());
      const { latency, non2xx, errors, requests } = await creates(installation.url, {
        rate,
        seconds,
        payloadBytes,
        created,
      });
      const { cpuMs, rssMb } = watching.stop();
      const { enabled } = await jobCounts(client);
      return {
        name: 'api',
        config: options,
        machine: machine(),
        created_per_s: round(requests.total / seconds, 1),
        create_ms: { p50: latency.p50, p99: latency.p99, p999: latency.p99_9, max: latency.max },
        failed: non2xx + errors,
        jobs_in_store: enabled,
        cpu_us_per_create: perTrigger(cpuByKind(cpuMs), requests.total),
        rss_mb: rssMb,
      };
    } finally {
      await installation.stop();
    }
  },
};

interface Creates {
  rate: number;
  seconds: number;
  payloadBytes: number;
  created: { n: number };
}

/** The jobs are due in an hour: nothing fires meanwhile. */
async function creates(url: string, { rate, seconds, payloadBytes, created }: Creates): Promise<autocannon.Result> {
  return await autocannon({
    url: `${url}/v1/clusters/${CLUSTER}/jobs`,
    connections: CONNECTIONS,
    overallRate: rate,
    duration: seconds,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    requests: [
      {
        setupRequest: (request) => {
          const job = created.n++;
          const schedule = '{"kind":"rate","everyMs":3600000}';
          const body = `{"key":"${jobKey(job)}","schedule":${schedule},"payload":${payloadText(job, payloadBytes)}}`;
          return { ...request, body };
        },
      },
    ],
  });
}
