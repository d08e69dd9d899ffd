/** A second tenant beside the load of the suite, with a topic and jobs of its own, and a reader that sees only these. */
import { Admin } from '@platformatic/kafka';
import { CarillonClient } from '../../src/sdk/index.ts';
import { type Load, rateLines, ratesOf } from './load.ts';
import { Reading } from './reading.ts';
import { STEP_MS } from './tally.ts';
import type { World } from './world.ts';

const TENANT = 'other';
export const TENANT_TOPIC = 'carillon.triggers.other';
const JOBS = 300;
const PER_SECOND = 100;
const SPAN_MS = 3_600_000;
/** Replicas of the partitions, by node: the first leads, and the last never does while the others live. */
const ASSIGNMENTS = [
  [2, 3, 1],
  [3, 2, 1],
].map((brokers, partition) => ({ partition, brokers }));

const tenants = new WeakMap<World, Promise<Reading>>();

/** The reader of the second tenant, which is made once in a world. */
export async function tenantOf(world: World): Promise<Reading> {
  const known = tenants.get(world) ?? startTenant(world);
  tenants.set(world, known);
  return await known;
}

/** Its topic leads on the second and third broker only, so that the first one can be slow without it. */
async function startTenant(world: World): Promise<Reading> {
  const { brokers } = world.cluster.servers.kafka;
  const admin = new Admin({ clientId: 'chaos', bootstrapBrokers: [...brokers] });
  const configs = [{ name: 'message.timestamp.type', value: 'LogAppendTime' }];
  await admin.createTopics({ topics: [TENANT_TOPIC], assignments: ASSIGNMENTS, configs });
  await admin.close();
  const client = new CarillonClient({ url: world.cluster.url, cluster: TENANT });
  const { delivery } = world;
  await client.clusters.create({ name: TENANT, topic: TENANT_TOPIC, partitions: ASSIGNMENTS.length, delivery });
  const load: Load = { jobs: JOBS, perSecond: PER_SECOND, seed: 1, anchorMs: Date.now() };
  const { key } = await client.jobs.bulk(() => rateLines(ratesOf(load)));
  await client.operations.wait(key);
  const fromMs = Math.ceil(Date.now() / STEP_MS) * STEP_MS;
  const reading = new Reading({
    ...{ brokers, topic: TENANT_TOPIC, partitions: ASSIGNMENTS.length },
    ...{ load, fromMs, spanMs: SPAN_MS },
  });
  world.atEnd(() => reading.stop());
  await reading.ready();
  return reading;
}
