import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type DemoJob, demoJobs } from '../../bench/demo/jobs.ts';
import { Reader } from '../../bench/demo/report.ts';
import type { Segment, Verdict } from '../../bench/judge.ts';
import { type Cluster, startCluster } from '../../deploy/local/cluster.ts';
import { CarillonClient } from '../../src/sdk/index.ts';

/**
 * Redis is emptied, whole or in part, under processes that fire 600 jobs of all kinds: it is rebuilt by itself, nothing is lost
 * or comes twice. Each test judges the span in which it did that.
 */
const CLUSTER = 'degraded';
const TOPIC = 'carillon.triggers.degraded';
const JOBS = 600;
const LEAD_MS = 10_000;
/** So many looks for what has not been read yet; what is missing then is lost. */
const LOOKS = 300;
const ALWAYS = Number.POSITIVE_INFINITY;
const FLAWLESS = { lost: 0, duplicated: 0, early: 0, unexpected: 0 };

const servers = inject('servers');

describe.skipIf(servers === null)('Redis loses what it had', () => {
  let cluster: Cluster;
  let client: CarillonClient;
  let reader: Reader;
  let redis: Redis;
  const rules = new Map<string, Segment[]>();

  beforeAll(async () => {
    cluster = await startCluster({
      servers: { temporary: true, small: true },
      roles: { manager: 2, worker: 2, api: 1 },
      port: 0,
      // Late is late, however long a store was away: the verdict counts every single time.
      env: { CARILLON_MISFIRE_AFTER_MS: '120000' },
    });
    client = new CarillonClient({ url: cluster.url, cluster: CLUSTER });
    await client.clusters.create({ name: CLUSTER, topic: TOPIC, partitions: 4, delivery: 'at-least-once' });
    reader = new Reader(['kafka', cluster.servers.kafka.brokers.join(','), TOPIC]);
    await reader.ready();
    redis = new Redis(cluster.servers.redis.url);
    redis.on('error', () => {});
    const firstMs = Math.ceil((Date.now() + LEAD_MS) / 1_000) * 1_000;
    const plan = { jobs: JOBS, fromMs: firstMs, toMs: firstMs + 2_000, cronMaxPerSecond: 0.5, seed: 11 };
    const jobs = demoJobs({ ...plan, periodsMs: [700, 1_000, 1_300, 2_500, 20_000, 45_000] });
    await register(jobs);
    await sleep(firstMs + 3_000 - Date.now());
  });

  afterAll(async () => {
    redis?.disconnect();
    reader?.stop();
    await cluster?.stop();
  });

  async function register(jobs: readonly DemoJob[]): Promise<void> {
    const { key } = await client.jobs.bulk(jobs.map(({ form }) => form));
    expect((await client.operations.wait(key)).counts).toMatchObject({ created: jobs.length, failed: 0 });
    for (const { form, oracle } of jobs) rules.set(form.key, [{ schedule: oracle, afterMs: 0, upToMs: ALWAYS }]);
  }

  const until = async (holds: () => Promise<boolean>): Promise<void> => {
    while (!(await holds().catch(() => false))) await sleep(50);
  };

  /** Members of all shards, finished ones left out. */
  async function members(): Promise<number> {
    let sum = 0;
    for (const key of await redis.keys('{carillon:*}:members')) sum += await redis.zcount(key, 1, '+inf');
    return sum;
  }

  /** The verdict over a span that ends now, when everything that was due in it has been read. */
  async function verdictSince(fromMs: number): Promise<Verdict> {
    const toMs = Date.now();
    for (let round = 0; ; round += 1) {
      const verdict = await reader.judge(rules, fromMs, toMs);
      if (verdict.lost === 0 || round === LOOKS) return verdict;
      await sleep(100);
    }
  }

  /** A write, as curl would send it: the status, whatever it is. */
  async function put(key: string): Promise<number> {
    const response = await fetch(`${cluster.url}/v1/clusters/${CLUSTER}/jobs/${key}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ schedule: { kind: 'once', at: '2099-01-01T00:00:00Z' } }),
    });
    await response.arrayBuffer();
    return response.status;
  }

  it('O-DL-07: Redis is flushed: rebuilt by itself, each time fires once, and changes meanwhile are not lost', async () => {
    const before = await members();
    expect(before).toBeGreaterThan(JOBS / 2);
    const sinceMs = Date.now();
    await redis.flushall();
    expect(await put('while-flushed')).toBe(201);
    await until(async () => (await members()) === before + 1);
    const tookMs = Date.now() - sinceMs;
    await sleep(3_000);
    expect(await verdictSince(sinceMs)).toMatchObject(FLAWLESS);
    expect(tookMs).toBeLessThan(10_000);
  });

  it('O-DL-07: one key of a shard is deleted', async () => {
    const before = await members();
    const sinceMs = Date.now();
    const keys = (await redis.keys('{carillon:*}:members')).sort();
    await redis.del(keys[0]!);
    await redis.del(keys.at(-1)!.replace(':members', ':records'));
    await until(async () => (await members()) === before);
    await sleep(2_000);
    expect(await verdictSince(sinceMs)).toMatchObject(FLAWLESS);
  });
});
