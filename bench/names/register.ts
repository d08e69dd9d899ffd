import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { MongoClient } from 'mongodb';
import { Installation } from '../installation/installation.ts';
import { mixedLines } from '../load/mixed-lines.ts';
import { cpuByKind, watch } from '../measure/processes.ts';
import type { Options } from '../options.ts';
import { machine } from '../report/machine.ts';
import { round } from '../report/result.ts';
import { perTrigger } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

const MEMBERS_WAIT_MS = 60_000;
const WARM_UP = 'warm-up';
/** Jobs of the warm-up, as a part of those that count. */
const WARM_UP_PART = 0.1;

/** From the first byte of the upload to the last member in its sorted set. */
export const register: Bench = {
  what: 'JOBS jobs of all kinds through the bulk API',
  defaults: { payloadBytes: 120, rawS: 0, seconds: 0 },
  async run(options, log) {
    const installation = await Installation.servers(options, log);
    const redis = new Redis(installation.servers.redis.url);
    try {
      const client = await installation.startRoles();
      await warmUp(installation, options);
      const before = await membersIn(redis);
      const watching = watch(installation.watched());
      const begun = performance.now();
      const registered = await installation.register(client, () =>
        mixedLines(options.jobs, options.payloadBytes, Date.now()),
      );
      await allMembers(redis, before + options.jobs);
      const seconds = (performance.now() - begun) / 1_000;
      const { cpuMs, rssMb, rssSeries } = watching.stop();
      const growth = Math.max(...['api-0', 'worker-0'].map((name) => growthOf(rssSeries[name] ?? [])));
      return {
        name: 'register',
        config: options,
        machine: machine(),
        registered_per_s: round(options.jobs / seconds, 1),
        seconds: round(seconds),
        created: registered.counts['created'] ?? 0,
        cpu_us_per_job: perTrigger(cpuByKind(cpuMs), options.jobs),
        rss_mb: rssMb,
        redis_bytes_per_job: Math.round(((rssMb['redis'] ?? 0) * 1e6) / options.jobs),
        mongodb_bytes_per_job: Math.round((await jobsOnDisk(installation.servers.mongodb.uri)) / options.jobs),
        memory_growth: round(growth),
        rss_series: rssSeries,
      };
    } finally {
      redis.disconnect();
      await installation.stop();
    }
  },
};

/** Jobs of another logical cluster, unjudged: the broker and the engine compile themselves meanwhile. */
async function warmUp(installation: Installation, options: Options): Promise<void> {
  const client = await installation.createCluster(WARM_UP);
  const lines = () => mixedLines(Math.ceil(options.jobs * WARM_UP_PART), options.payloadBytes, Date.now());
  await installation.register(client, lines);
}

/** Members that have a time, in the sorted sets of all shards; what else stands there are marks. */
async function membersIn(redis: Redis): Promise<number> {
  const keys = await redis.keys('*:members');
  const sizes = await Promise.all(keys.map((key) => redis.zcount(key, 1, '+inf')));
  return sizes.reduce((a, b) => a + b, 0);
}

/** Waits until there is a member for each job, and no more. */
async function allMembers(redis: Redis, jobs: number): Promise<void> {
  const waited = performance.now();
  for (;;) {
    const total = await membersIn(redis);
    if (total === jobs) return;
    if (performance.now() - waited > MEMBERS_WAIT_MS) throw new Error(`${total} members for ${jobs} jobs`);
    await sleep(100);
  }
}

/** Bytes of the jobs and their indexes on the disk, compressed as MongoDB keeps them. */
async function jobsOnDisk(uri: string): Promise<number> {
  await using client = new MongoClient(uri);
  await client.connect();
  const [stats] = await client
    .db('carillon')
    .collection('jobs')
    .aggregate<{ storageStats: { storageSize: number; totalIndexSize: number } }>([
      { $collStats: { storageStats: {} } },
    ])
    .toArray();
  return (stats?.storageStats.storageSize ?? 0) + (stats?.storageStats.totalIndexSize ?? 0);
}

/** Memory of the last quarter against that of the second: the first is that of a process which has just started. */
export function growthOf(series: readonly number[]): number {
  const quarter = Math.floor(series.length / 4);
  if (quarter === 0) return 1;
  const most = (from: number, to: number): number => Math.max(...series.slice(from, to));
  return most(quarter * 3, series.length) / most(quarter, quarter * 2);
}
