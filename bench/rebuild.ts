import { parseArgs } from 'node:util';
import { Redis } from 'ioredis';
import { startServers } from '../deploy/local/instance.ts';
import { memoryBus } from '../src/adapters/memory/bus.ts';
import { connectMongo } from '../src/adapters/mongodb/connect.ts';
import { connectRedis } from '../src/adapters/redis/connect.ts';
import { systemClock } from '../src/adapters/system/clock.ts';
import type { Job } from '../src/core/job.ts';
import { LIMITS } from '../src/core/limits.ts';
import { TOPICS } from '../src/core/topics.ts';
import { SlotRunner } from '../src/engine/firing/slot.ts';
import { silentTelemetry } from '../src/ports/telemetry.ts';

/**
 * How long one wheel takes to rebuild its shards after a FLUSHALL, and what the reconciler costs: real MongoDB and Redis, the
 * real owner of a slot, one process. `node bench/rebuild.ts --jobs 100000`. Prints one line of JSON.
 */
const { values } = parseArgs({ options: { jobs: { type: 'string', default: '100000' } } });
const JOBS = Number(values.jobs);
const clock = systemClock();
const servers = await startServers({ temporary: true, only: ['mongodb', 'redis'] });
const mongo = await connectMongo({ uri: servers.mongodb.uri, database: 'rebuild' }, silentTelemetry);
const triggers = await connectRedis({ url: servers.redis.url, prefix: 'rebuild' }, silentTelemetry);
const counts = new Map<string, number>();
const telemetry = {
  ...silentTelemetry,
  count: (name: string, _labels?: unknown, by = 1) => void counts.set(name, (counts.get(name) ?? 0) + by),
};
const bus = memoryBus(clock, telemetry);
await bus.ensureTopics([TOPICS.fast, TOPICS.progress, TOPICS.cursors].map((name) => ({ name, partitions: 2 })));
await bus.ensureTopics([
  { name: TOPICS.answers, partitions: 1 },
  { name: 't', partitions: 8 },
]);
const delivery = 'at-least-once' as const;
const cluster = { name: 'c', topic: 't', partitions: 8, envelope: 'compact', delivery, createdMs: 0 } as const;
await mongo.catalog.createCluster(cluster);

/** Mixed kinds, most of them not due in the next minute: a cron a day, a rate of hours, a one-shot in some days. */
function jobOf(i: number, nowMs: number): Job {
  const kinds = [
    { kind: 'cron', expression: `${i % 60} ${i % 24} * * *`, zone: 'Europe/Paris' },
    { kind: 'rate', everyMs: 3_600_000 + (i % 1_000) * 1_000, anchorMs: nowMs + 60_000 + (i % 3_600_000) },
    { kind: 'once', atMs: nowMs + 600_000 + i * 100 },
  ] as const;
  return {
    cluster: 'c',
    key: `job-${i}`,
    schedule: kinds[i % 3]!,
    bounds: {},
    misfire: { mode: 'once' },
    payload: `{"n":${i},"text":"${'x'.repeat(80)}"}`,
    contentType: 'application/json',
    version: 1,
    state: 'enabled',
    shard: 1 + Math.floor(i / LIMITS.shardJobs),
    number: 1 + (i % LIMITS.shardJobs),
    createdMs: nowMs,
    updatedMs: nowMs - 60_000,
    cutMs: nowMs,
    position: { partition: 0, offset: i },
    lastChange: { id: `r${i}`, result: 'created' },
  };
}

const startMs = clock.wallMs();
for (let from = 0; from < JOBS; from += 5_000) {
  await mongo.jobs.insertMany(Array.from({ length: Math.min(5_000, JOBS - from) }, (_, i) => jobOf(from + i, startMs)));
}
const shards = Math.ceil(JOBS / LIMITS.shardJobs);
await mongo.shards.create(
  Array.from({ length: shards }, (_, i) => ({
    ...{ id: 1 + i, delivery, slot: 0, state: 'open' as const, jobs: LIMITS.shardJobs },
    ...{ nextNumber: LIMITS.shardJobs + 1, triggersPerSecond: 0, saturated: false },
  })),
);
const runner = new SlotRunner({
  stores: { bus, jobs: mongo.jobs, catalog: mongo.catalog, shards: mongo.shards, triggers },
  ...{ clock, telemetry, delivery, slot: 0, epoch: 1, incarnation: 'w', producer: await bus.producer() },
  ...{ installation: { id: 'i', slotsPerSet: 1 }, misfireAfterMs: 10_000, trusted: () => true },
});
await runner.adopt();
const redis = new Redis(servers.redis.url);
const members = async (): Promise<number> => {
  let sum = 0;
  for (let shard = 1; shard <= shards; shard += 1) sum += (await triggers.count(shard)).members;
  return sum;
};
while (await runner.rebuild());
const first = await members();

await redis.flushall();
const flushedMs = performance.now();
const cpu = process.cpuUsage();
let longestMs = 0;
let lastMs = performance.now();
// The firing loop has its turns meanwhile: how long it had to wait for one at most.
const turns = setInterval(() => {
  longestMs = Math.max(longestMs, performance.now() - lastMs - 2);
  lastMs = performance.now();
}, 2);
// A horizon that has come near is what tells an owner, unless a connection or a missing member did before.
while ((counts.get('shards_lost_total') ?? 0) < 2 * shards) {
  await runner.scan(clock.wallMs());
  await runner.rebuild();
  await clock.sleep(20);
  if ((counts.get('shards_lost_total') ?? 0) > shards) break;
}
const seenMs = performance.now();
while ((await runner.scan(clock.wallMs())) > 0 || (await runner.rebuild()) || (await members()) < first);
const doneMs = performance.now();
clearInterval(turns);
const used = process.cpuUsage(cpu);

const compareCpu = process.cpuUsage();
const before = counts.get('jobs_compared_total') ?? 0;
const compareMs = performance.now();
while (performance.now() - compareMs < 20_000) {
  await runner.reconcile();
  await clock.sleep(1_000);
}
const own = process.cpuUsage(compareCpu);
const result = {
  jobs: JOBS,
  members: first,
  detected_ms: Math.round(seenMs - flushedMs),
  rebuilt_ms: Math.round(doneMs - flushedMs),
  cpu_us_per_job: Number(((used.user + used.system) / JOBS).toFixed(1)),
  longest_turn_ms: Math.round(longestMs),
  compared_per_s: Math.round(((counts.get('jobs_compared_total') ?? 0) - before) / 20),
  reconcile_cpu_percent: Number(((own.user + own.system) / 200_000).toFixed(2)),
};
process.stdout.write(`${JSON.stringify(result)}\n`);
redis.disconnect();
await runner.close();
await triggers.close();
await mongo.close();
await servers.stop();
