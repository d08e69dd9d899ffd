import { createTopicsV7, deleteTopicsV6 } from '@platformatic/kafka';
import { carillonError, isCode } from '../../core/errors.ts';
import type { TopicSpec } from '../../ports/bus.ts';
import type { Cluster } from './cluster.ts';
import { requireExactlyOnce } from './durability.ts';
import { answerIn, CODE, nameOfCode, unavailable } from './protocol-errors.ts';

const REQUEST_MS = 10_000;
const MOST_REPLICAS = 3;

/** Makes missing topics and answers when each partition of all of them has a leader. */
export async function ensureTopics(cluster: Cluster, specs: readonly TopicSpec[]): Promise<void> {
  if (specs.length === 0) return;
  const missing: TopicSpec[] = [];
  for (const spec of specs) if (await isMissing(cluster, spec)) missing.push(spec);
  if (missing.length > 0) await create(cluster, missing);
  for (const spec of missing) await allLed(cluster, spec);
  for (const { name, exactlyOnce } of specs) if (exactlyOnce === true) await requireExactlyOnce(cluster, name);
}

async function isMissing(cluster: Cluster, { name, partitions }: TopicSpec): Promise<boolean> {
  try {
    const { length } = await cluster.leaders(name);
    if (length >= partitions) return false;
    throw carillonError('setup-refused', `topic ${name} has ${length} partitions and must have at least ${partitions}`);
  } catch (error) {
    if (isCode(error, 'topic-unknown')) return true;
    throw error;
  }
}

async function create(cluster: Cluster, specs: readonly TopicSpec[]): Promise<void> {
  const replicas = cluster.settings.replicationFactor ?? Math.min(MOST_REPLICAS, (await cluster.brokers()).length);
  const topics = specs.map((spec) => ({
    name: spec.name,
    numPartitions: spec.partitions,
    replicationFactor: replicas,
    assignments: [],
    configs: configsOf(spec, replicas),
  }));
  const answer = await cluster.repeat('making topics', async () =>
    createTopicsV7.api
      .async(await cluster.anyone(), topics, REQUEST_MS, false)
      .catch(answerIn<createTopicsV7.CreateTopicsResponse>),
  );
  for (const { name, errorCode, errorMessage } of answer.topics) {
    // Somebody else may make it at the same time.
    if (errorCode === 0 || errorCode === CODE.topicExists) continue;
    throw unavailable(`making topic ${name}`, new Error(`${nameOfCode(errorCode)} ${errorMessage ?? ''}`));
  }
}

function configsOf(
  { compacted, exactlyOnce, retentionMs, retentionBytes }: TopicSpec,
  replicas: number,
): { name: string; value: string }[] {
  const configs: Record<string, string | number> = {};
  if (replicas > 2 || (replicas === 2 && exactlyOnce === true)) {
    // What is acknowledged stands on two disks, and a replica that missed it never leads; brokers' defaults allow both.
    configs['min.insync.replicas'] = 2;
    configs['unclean.leader.election.enable'] = 'false';
  }
  if (retentionMs !== undefined) configs['retention.ms'] = retentionMs;
  if (retentionBytes !== undefined) {
    configs['retention.bytes'] = retentionBytes;
    // Retention removes whole segments and never the one being written: a quarter of the bound each keeps near it.
    configs['segment.bytes'] = Math.min(1024 ** 3, Math.max(1024 ** 2, Math.floor(retentionBytes / 4)));
  }
  if (compacted === true) {
    configs['cleanup.policy'] = 'compact';
    // Compaction leaves the segment being written alone; owners read these topics whole, so they are kept short.
    configs['segment.bytes'] = 16 * 1024 ** 2;
    configs['segment.ms'] = 600_000;
    configs['min.cleanable.dirty.ratio'] = 0.2;
  }
  return Object.entries(configs).map(([name, value]) => ({ name, value: String(value) }));
}

async function allLed(cluster: Cluster, { name, partitions }: TopicSpec): Promise<void> {
  await cluster.repeat(`leaders of ${name}`, async () => {
    try {
      const leaders = await cluster.leaders(name);
      if (leaders.length >= partitions && leaders.every((leader) => leader !== null)) return;
    } catch (error) {
      // A broker learns of a new topic a little after the controller.
      if (!isCode(error, 'topic-unknown')) throw error;
    }
    throw new Error('not every partition has a leader yet');
  });
}

/** Answers when the brokers do not know the topics any more. */
export async function deleteTopics(cluster: Cluster, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  const answer = await cluster.repeat('deleting topics', async () =>
    deleteTopicsV6.api
      .async(
        await cluster.anyone(),
        names.map((name) => ({ name })),
        REQUEST_MS,
      )
      .catch(answerIn<deleteTopicsV6.DeleteTopicsResponse>),
  );
  for (const { name, errorCode } of answer.responses) {
    if (errorCode === 0 || errorCode === CODE.unknownTopicOrPartition) continue;
    throw unavailable(`deleting topic ${name}`, new Error(nameOfCode(errorCode)));
  }
  for (const name of names) await gone(cluster, name);
}

async function gone(cluster: Cluster, name: string): Promise<void> {
  await cluster.repeat(`end of ${name}`, async () => {
    const known = await cluster.leaders(name).catch((error: unknown) => {
      if (isCode(error, 'topic-unknown')) return null;
      throw error;
    });
    if (known !== null) throw new Error('the topic is still there');
  });
}
