/**
 * `npm run demo:cluster`: real MongoDB, Redis and Kafka; 2 managers, 2 workers, the API. 100,000 jobs of all kinds in 100 zones
 * come by the bulk API; for a minute they fire, and 5 % of them are changed, paused or deleted meanwhile. A reader in a
 * process of its own compares every occurrence with the oracle; times are those at which the broker appended. `--json FILE`
 * writes the result.
 */
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Kafka, logLevel } from 'kafkajs';
import { startCluster } from '../../deploy/local/cluster.ts';
import { CarillonClient } from '../../src/sdk/index.ts';
import type { Segment } from '../judge.ts';
import { type DemoJob, demoJobs } from './jobs.ts';
import { failures, printResult, Reader, resultOf } from './report.ts';

const CLUSTER = 'demo';
const TOPIC = 'carillon.triggers.demo';
const PARTITIONS = 8;
const P99_MS = 100;
const OFFERED_LEAST = 10_000;
/** One job in this many is changed, paused or deleted while it fires; a tenth of those, one-shots, is left out: 5 % of all. */
const CHANGED_ONE_IN = 18;
/** Requests under way at once while jobs are changed. */
const CHANGES_AT_ONCE = 32;
/** I7: where the owner could not answer in time, its older version may go out for this long after the answer, in ms. */
const OWNER_UNHEARD_MS = 100;
const ALWAYS = Number.POSITIVE_INFINITY;

/** The topic is made beforehand, since its times must be the broker's: the worker's clock is not the judge. */
async function makeTopic(brokers: readonly string[]): Promise<void> {
  const admin = new Kafka({ clientId: 'demo', brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  const configEntries = [
    { name: 'message.timestamp.type', value: 'LogAppendTime' },
    { name: 'retention.bytes', value: String(256 * 1024 * 1024) },
  ];
  await admin.createTopics({
    topics: [{ topic: TOPIC, numPartitions: PARTITIONS, configEntries }],
    waitForLeaders: true,
  });
  await admin.disconnect();
}

const iso = (ms: number): string => new Date(ms).toISOString();

/**
 * Changes one job over the API, and answers the rules that it has then. The answer names the cut, the instant of the change.
 * Times of the old version in (cut, answer] may have been fired before its owner heard of the change; later ones only
 * within `OWNER_UNHEARD_MS`.
 */
async function change(client: CarillonClient, { form, oracle }: DemoJob, turn: number): Promise<Segment[]> {
  const { key } = form;
  const always: Segment = { schedule: oracle, afterMs: 0, upToMs: ALWAYS };
  const untilHeard = (afterMs: number): Segment => {
    return { schedule: oracle, afterMs, upToMs: Date.now() + OWNER_UNHEARD_MS, optional: true };
  };
  if (turn % 3 === 0) {
    const sentMs = Date.now();
    await client.jobs.delete(key);
    return [{ ...always, upToMs: sentMs }, untilHeard(sentMs)];
  }
  if (turn % 3 === 1) {
    const cutMs = Date.parse((await client.jobs.pause(key)).updatedAt);
    return [{ ...always, upToMs: cutMs }, untilHeard(cutMs)];
  }
  if (oracle.kind !== 'rate') {
    await client.jobs.patch(key, { payload: { changed: turn } });
    return [always];
  }
  const changed = { kind: 'rate', everyMs: oracle.everyMs + 1_250, anchorMs: oracle.anchorMs + 333 } as const;
  const schedule = { kind: 'rate', everyMs: changed.everyMs, anchor: iso(changed.anchorMs) } as const;
  const cutMs = Date.parse((await client.jobs.patch(key, { schedule })).updatedAt);
  return [{ ...always, upToMs: cutMs }, untilHeard(cutMs), { schedule: changed, afterMs: cutMs, upToMs: ALWAYS }];
}

/** Spreads the changes over the span; a few run at once. Answers how many were made. */
async function changeSome(
  client: CarillonClient,
  jobs: readonly DemoJob[],
  rules: Map<string, Segment[]>,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): Promise<number> {
  // A finished one-shot cannot be paused, so one-shots are left out.
  const chosen = jobs.filter(({ oracle }, i) => i % CHANGED_ONE_IN === 7 && oracle.kind !== 'once');
  let next = 0;
  const one = async (): Promise<void> => {
    for (let i = next++; i < chosen.length; i = next++) {
      const dueMs = fromMs + ((toMs - fromMs) * i) / chosen.length;
      await sleep(Math.max(0, dueMs - Date.now()));
      const job = chosen[i]!;
      rules.set(job.form.key, await change(client, job, i));
    }
  };
  await Promise.all(Array.from({ length: CHANGES_AT_ONCE }, one));
  return chosen.length;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      json: { type: 'string' },
      seconds: { type: 'string', default: '60' },
      jobs: { type: 'string', default: '100000' },
      lead: { type: 'string', default: '40' },
    },
  });
  const seconds = Number(values.seconds);
  const cluster = await startCluster({
    // A broker that has just been started spends a third of this machine for a minute on compiling itself anew.
    servers: { temporary: true, settings: { kafka: { quickJit: true } } },
    roles: { manager: 2, worker: 2, api: 1 },
    port: 0,
    log: (line) => console.log(line),
  });
  let reader: Reader | null = null;
  try {
    const { brokers } = cluster.servers.kafka;
    await makeTopic(brokers);
    const client = new CarillonClient({ url: cluster.url, cluster: CLUSTER });
    await client.clusters.create({ name: CLUSTER, topic: TOPIC, partitions: PARTITIONS });
    reader = new Reader(['kafka', brokers.join(','), TOPIC]);
    await reader.ready();

    const fromMs = Math.ceil((Date.now() + Number(values.lead) * 1_000) / 1_000) * 1_000;
    const toMs = fromMs + seconds * 1_000;
    const periodsMs = [4_000, 5_000, 7_500, 10_000, 12_000];
    const jobs = demoJobs({ jobs: Number(values.jobs), fromMs, toMs, periodsMs, cronMaxPerSecond: 0.11, seed: 1 });
    const began = performance.now();
    const operation = await client.jobs.bulk(jobs.map(({ form }) => form));
    const done = await client.operations.wait(operation.key);
    const registerSeconds = (performance.now() - began) / 1_000;
    console.log(`${jobs.length} jobs in ${registerSeconds.toFixed(1)} s: ${JSON.stringify(done.counts)}`);
    if (Date.now() > fromMs) throw new Error('registration took longer than --lead seconds');

    const rules = new Map<string, Segment[]>(
      jobs.map(({ form, oracle }) => [form.key, [{ schedule: oracle, afterMs: 0, upToMs: ALWAYS }]]),
    );
    const changes = await changeSome(client, jobs, rules, { fromMs, toMs });
    await sleep(Math.max(0, toMs + 1_000 - Date.now()));
    const verdict = await reader.judge(rules, fromMs, toMs);
    const result = {
      ...resultOf(verdict, jobs.length, seconds),
      workers: 2,
      changes,
      registered_per_s: Math.round(jobs.length / registerSeconds),
    };
    printResult('Carillon, cluster (MongoDB, Redis, Kafka; 2 managers, 2 workers)', result);
    if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);
    const wrong = failures(result, { p99Ms: P99_MS, offeredLeast: OFFERED_LEAST });
    for (const fault of wrong) console.error(`FAILED: ${fault}`);
    return wrong.length === 0 ? 0 : 1;
  } finally {
    reader?.stop();
    await cluster.stop();
  }
}

// Whoever ends the demo ends what it started: exit handlers run on exit, not on a signal.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(1));
process.exitCode = await main();
