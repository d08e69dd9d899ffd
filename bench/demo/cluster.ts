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
import { ALWAYS, changeSome } from './changes.ts';
import { demoJobs } from './jobs.ts';
import { failures, printResult, Reader, resultOf } from './report.ts';

const CLUSTER = 'demo';
const TOPIC = 'carillon.triggers.demo';
const PARTITIONS = 8;
/**
 * The lateness that is asked for here is that of at-least-once: with both cores full of everything, transactions of two workers
 * cost more than the triggers in them.
 */
const DELIVERY = 'at-least-once';
const P99_MS = 100;
const OFFERED_LEAST = 10_000;
/** One job in this many is changed, paused or deleted while it fires; a tenth of those, one-shots, is left out: 5 % of all. */
const CHANGED_ONE_IN = 18;

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
    await client.clusters.create({ name: CLUSTER, topic: TOPIC, partitions: PARTITIONS, delivery: DELIVERY });
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
    const changes = await changeSome(client, jobs, rules, { fromMs, toMs, oneIn: CHANGED_ONE_IN });
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
