import { setTimeout as sleep } from 'node:timers/promises';
import { Admin, ConfigResourceTypes } from '@platformatic/kafka';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { type Cluster, startCluster } from '../../deploy/local/cluster.ts';
import { kafkaLeaders, mongodbPrimary, redisPrimaries, watchedPrimary } from '../../deploy/local/leaders.ts';
import { killMember } from '../../deploy/local/members.ts';
import { TOPICS } from '../../src/core/topics.ts';
import { CarillonClient } from '../../src/sdk/index.ts';
import { rateLines, ratesOf } from '../chaos/load.ts';
import { Reading } from '../chaos/reading.ts';
import { STEP_MS } from '../chaos/tally.ts';

/**
 * Each set of several servers with a small Carillon on it: jobs fire, the process that leads is killed, and they fire on. How
 * late, and whether anything comes twice, is what the chaos suite says.
 */
const CLUSTER = 'topology';
const TOPIC = 'carillon.triggers.topology';
const PARTITIONS = 3;
const JOBS = 40;
const PER_SECOND = 60;
/** Occurrences of so much time after each kill must all be published, in ms; those that are missing later than this are lost. */
const SPAN_MS = 2_000;
const LOST_AFTER_MS = 60_000;

let cluster: Cluster | null = null;
let reading: Reading | null = null;

afterEach(async () => {
  reading?.stop();
  await cluster?.stop();
  [cluster, reading] = [null, null];
});

type Groups = NonNullable<Parameters<typeof startCluster>[0]['servers']['settings']>;

async function begin(settings: Groups): Promise<Cluster> {
  cluster = await startCluster({
    servers: { temporary: true, small: true, settings },
    roles: { manager: 1, worker: 1, api: 1 },
    port: 0,
    // Nothing is given up however long a failover takes on a busy machine.
    env: { CARILLON_MISFIRE_AFTER_MS: '600000' },
  });
  const { brokers } = cluster.servers.kafka;
  const client = new CarillonClient({ url: cluster.url, cluster: CLUSTER });
  await makeTopic(brokers);
  await client.clusters.create({ name: CLUSTER, topic: TOPIC, partitions: PARTITIONS });
  const load = { jobs: JOBS, perSecond: PER_SECOND, seed: 11, anchorMs: Date.now() };
  const { key } = await client.jobs.bulk(() => rateLines(ratesOf(load)));
  expect((await client.operations.wait(key)).counts).toMatchObject({ created: JOBS, failed: 0 });
  const fromMs = now();
  reading = new Reading({ brokers, topic: TOPIC, partitions: PARTITIONS, load, fromMs, spanMs: 600_000 });
  await reading.ready();
  await firesAll(fromMs);
  return cluster;
}

/** With the broker's times, by which the reader judges. */
async function makeTopic(brokers: readonly string[]): Promise<void> {
  const admin = new Admin({ clientId: 'topologies', bootstrapBrokers: [...brokers] });
  const configs = [{ name: 'message.timestamp.type', value: 'LogAppendTime' }];
  await admin.createTopics({ topics: [TOPIC], partitions: PARTITIONS, replicas: brokers.length, configs });
  await admin.close();
}

const now = (): number => Math.floor(Date.now() / STEP_MS) * STEP_MS;

/** Every occurrence of the span is published, sooner or later; none early, and none that is not due. */
async function firesAll(fromMs: number): Promise<void> {
  await sleep(fromMs + SPAN_MS - Date.now());
  const verdict = await reading!.complete(fromMs, fromMs + SPAN_MS, LOST_AFTER_MS);
  expect(verdict).toMatchObject({ lost: 0, early: 0, unexpected: 0 });
  expect(verdict.expected).toBeGreaterThan(PER_SECOND);
}

async function kill(name: string): Promise<void> {
  const killedMs = now();
  await killMember({ dir: cluster!.servers.dir }, name);
  await firesAll(killedMs);
}

/** Ten processes and more start on a machine that other tests use as well; alone on two cores the two take 30 s. */
const TEST_MS = 240_000;

describe.skipIf(inject('servers') === null)('Carillon on servers of several processes', { timeout: TEST_MS }, () => {
  it('goes on when the primary of MongoDB, of Redis under Sentinels, and a leader of Kafka is killed', async () => {
    const { servers } = await begin({
      mongodb: { members: 3 },
      redis: { topology: 'sentinel' },
      kafka: { brokers: 3, heapMB: 256 },
    });
    const which = { dir: servers.dir };
    const admin = new Admin({ clientId: 'topologies', bootstrapBrokers: [...servers.kafka.brokers] });
    const { topics } = await admin.metadata({ topics: Object.values(TOPICS) });
    const inStep = await admin.describeConfigs({
      resources: [...topics.keys()].map((resourceName) => ({
        resourceType: ConfigResourceTypes.TOPIC,
        resourceName,
        configurationKeys: ['min.insync.replicas'],
      })),
    });
    await admin.close();
    expect(inStep.flatMap(({ configs }) => configs.map(({ value }) => value))).toEqual([...topics].map(() => '2'));
    expect(topics.size).toBe(Object.values(TOPICS).length);
    for (const [name, { partitions }] of topics) {
      for (const { replicas } of Object.values(partitions)) expect(replicas, name).toHaveLength(3);
    }
    await kill(await mongodbPrimary(which));
    await kill(await watchedPrimary(which));
    await kill((await kafkaLeaders(which, TOPIC))[0]!);
  });

  it('goes on when a primary of a Redis Cluster is killed', async () => {
    const { servers } = await begin({ redis: { topology: 'cluster' } });
    await kill((await redisPrimaries({ dir: servers.dir }))[0]!);
  });
});
