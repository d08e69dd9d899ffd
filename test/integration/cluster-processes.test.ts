import { setTimeout as sleep } from 'node:timers/promises';
import { type Db, MongoClient } from 'mongodb';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type DemoJob, demoJobs } from '../../bench/demo/jobs.ts';
import { Reader } from '../../bench/demo/report.ts';
import type { Segment, Verdict } from '../../bench/judge.ts';
import { type Cluster, type ClusterProcess, startCluster } from '../../deploy/local/cluster.ts';
import { isAlive, stopProcess } from '../../deploy/local/process.ts';
import { CarillonClient } from '../../src/sdk/index.ts';

/**
 * The whole product as processes on real servers of its own, judged by a reader and an oracle that share no code with it.
 * Processes are killed and stopped while 600 jobs of all kinds fire on; each test judges the span in which that happened.
 */
const CLUSTER = 'processes';
const TOPIC = 'carillon.triggers.processes';
const JOBS = 600;
/** Jobs begin this long after the test begins to register them, in ms, and one-shots lie within so many ms after that. */
const LEAD_MS = 8_000;
const ONE_SHOTS_MS = 4_000;
/** So many looks for what has not been read yet; what is missing then is lost. */
const LOOKS = 200;
const ALWAYS = Number.POSITIVE_INFINITY;

const servers = inject('servers');

describe.skipIf(servers === null)('processes come and go', () => {
  let cluster: Cluster;
  let client: CarillonClient;
  let reader: Reader;
  let mongo: MongoClient;
  let db: Db;
  let jobs: DemoJob[];
  let firstMs: number;

  beforeAll(async () => {
    cluster = await startCluster({
      servers: { temporary: true, small: true },
      roles: { manager: 2, worker: 2, api: 1 },
      port: 0,
      // A machine that is busy with other tests may take longer than usual to take a slot over: that is late, not misfired.
      env: { CARILLON_MISFIRE_AFTER_MS: '120000' },
    });
    client = new CarillonClient({ url: cluster.url, cluster: CLUSTER });
    await client.clusters.create({ name: CLUSTER, topic: TOPIC, partitions: 4 });
    reader = new Reader(['kafka', cluster.servers.kafka.brokers.join(','), TOPIC]);
    await reader.ready();
    mongo = await new MongoClient(cluster.servers.mongodb.uri).connect();
    db = mongo.db('carillon');
    firstMs = Math.ceil((Date.now() + LEAD_MS) / 1_000) * 1_000;
    const plan = { jobs: JOBS, fromMs: firstMs, toMs: firstMs + ONE_SHOTS_MS, cronMaxPerSecond: 0.5, seed: 7 };
    jobs = demoJobs({ ...plan, periodsMs: [500, 700, 1_000, 1_300, 2_500] });
    const { key } = await client.jobs.bulk(jobs.map(({ form }) => form));
    expect((await client.operations.wait(key)).counts).toMatchObject({ created: JOBS, failed: 0 });
    expect(Date.now(), 'the jobs were registered in time').toBeLessThan(firstMs);
  });

  afterAll(async () => {
    reader?.stop();
    await mongo?.close();
    await cluster?.stop();
  });

  const living = (role: ClusterProcess['role']): ClusterProcess[] =>
    cluster.processes.filter((one) => one.role === role && isAlive(one.identity));

  const kill = async (one: ClusterProcess): Promise<void> => stopProcess(one.identity, 0);

  const until = async (holds: () => Promise<boolean>): Promise<void> => {
    while (!(await holds())) await sleep(50);
  };

  /** The name under which a process has its session; undefined when it has none. */
  async function incarnationOf({ identity }: ClusterProcess): Promise<string | undefined> {
    const session = await db.collection('sessions').findOne({ pid: identity.pid });
    return session === null ? undefined : String(session._id);
  }

  async function slotsOf(owner: string | undefined): Promise<number> {
    return owner === undefined ? 0 : await db.collection('leases').countDocuments({ owner });
  }

  /** The verdict over a span that ends now, when everything that was due in it has been read. */
  async function verdictSince(fromMs: number): Promise<Verdict> {
    const toMs = Date.now();
    const rules = new Map<string, Segment[]>(
      jobs.map(({ form, oracle }) => [form.key, [{ schedule: oracle, afterMs: 0, upToMs: ALWAYS }]]),
    );
    for (let round = 0; ; round += 1) {
      const verdict = await reader.judge(rules, fromMs, toMs);
      if (verdict.lost === 0 || round === LOOKS) return verdict;
      await sleep(100);
    }
  }

  const flawless = { lost: 0, duplicated: 0, early: 0, unexpected: 0 };

  it('jobs of all kinds fire once each, at their times', async () => {
    await sleep(firstMs + ONE_SHOTS_MS - Date.now());
    const verdict = await verdictSince(firstMs - 1);
    expect(verdict).toMatchObject(flawless);
    expect(verdict.fired).toBeGreaterThan(JOBS);
  });

  it('a worker killed with -9: its slots move, nothing is lost, copies have the same execution id', async () => {
    const [victim, heir] = living('worker') as [ClusterProcess, ClusterProcess];
    const [gone, stays] = [await incarnationOf(victim), await incarnationOf(heir)];
    expect(await slotsOf(gone)).toBeGreaterThan(0);
    const sinceMs = Date.now();
    await kill(victim);
    await until(async () => (await slotsOf(gone)) === 0 && (await slotsOf(stays)) > 0);
    // The new owner has fired what came due meanwhile: the verdict waits for it.
    const verdict = await verdictSince(sinceMs);
    expect(verdict).toMatchObject({ lost: 0, early: 0, unexpected: 0 });
  });

  it('a new worker gets slots, and one that is stopped gives its own up: nothing is lost or duplicated', async () => {
    const [old] = living('worker') as [ClusterProcess];
    const sinceMs = Date.now();
    const fresh = await cluster.start('worker');
    await until(async () => (await slotsOf(await incarnationOf(fresh))) > 0);
    const leaving = await incarnationOf(old);
    await stopProcess(old.identity, 30_000);
    await until(async () => (await slotsOf(leaving)) === 0);
    expect(await verdictSince(sinceMs)).toMatchObject(flawless);
  });

  it('the leading manager and a worker are killed: the other manager takes over and moves the slots', async () => {
    await cluster.start('worker');
    const [victim] = living('worker') as [ClusterProcess];
    const gone = await incarnationOf(victim);
    const holder = (await db.collection('leaders').findOne({}))?.['holder'];
    const managers = living('manager');
    const names = await Promise.all(managers.map(incarnationOf));
    const leader = managers[names.indexOf(holder)];
    expect(leader, 'one of the two leads').toBeDefined();
    const sinceMs = Date.now();
    await Promise.all([kill(leader!), kill(victim)]);
    await until(async () => (await slotsOf(gone)) === 0);
    expect((await db.collection('leaders').findOne({}))?.['holder']).not.toBe(holder);
    expect(await verdictSince(sinceMs)).toMatchObject({ lost: 0, early: 0, unexpected: 0 });
  });

  it('the API is killed when a bulk upload was accepted: every line is applied after its restart', async () => {
    const at = new Date(Date.now() + 86_400_000).toISOString();
    const lines = Array.from({ length: 4_000 }, (_, i) => ({
      key: `accepted/${i}`,
      schedule: { kind: 'once', at } as const,
    }));
    const { key } = await client.jobs.bulk(lines);
    await kill(living('api')[0]!);
    const { url } = await cluster.start('api');
    const again = new CarillonClient({ url: url!, cluster: CLUSTER });
    const done = await again.operations.wait(key);
    expect(done).toMatchObject({ lines: 4_000, counts: { created: 4_000, updated: 0, unchanged: 0, failed: 0 } });
    let found = 0;
    for await (const _ of again.jobs.list({ prefix: 'accepted/' })) found += 1;
    expect(found).toBe(4_000);
  });
});
