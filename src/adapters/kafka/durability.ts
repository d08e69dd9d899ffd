import { metadataV12 } from '@platformatic/kafka';
import { carillonError } from '../../core/errors.ts';
import type { Cluster } from './cluster.ts';
import { answerIn } from './protocol-errors.ts';
import { describeTopics } from './topic-settings.ts';

const MIN_INSYNC = 'min.insync.replicas';
const UNCLEAN = 'unclean.leader.election.enable';

/**
 * Refuses a topic whose committed records the death of one broker could take back or hide for ever ((m) with one replica the
 * last stable offset stood still after a broker's death). With one broker there is nothing to choose.
 *
 * @throws CarillonError `delivery-unsupported`
 */
export async function requireExactlyOnce(cluster: Cluster, topic: string): Promise<void> {
  if ((await cluster.brokers()).length < 2) return;
  const { partitions } = await cluster.repeat(`replicas of ${topic}`, async () => {
    const answer = await metadataV12.api
      .async(await cluster.anyone(), [topic], false, false)
      .catch(answerIn<metadataV12.MetadataResponse>);
    const [found] = answer.topics;
    if (found === undefined || found.partitions.length === 0) throw new Error('no answer about the topic');
    return found;
  });
  const settings = await cluster.repeat(`settings of ${topic}`, async () => {
    const found = (await describeTopics(cluster, [topic], [MIN_INSYNC, UNCLEAN])).get(topic);
    if (found === undefined) throw new Error('no answer about the settings of the topic');
    return found;
  });
  const replicas = Math.min(...partitions.map(({ replicaNodes }) => replicaNodes.length));
  if (replicas < 2) throw refused(topic, `has ${replicas} replica of each partition and needs 2`);
  const insync = Number(settings.get(MIN_INSYNC)?.value ?? 1);
  if (insync < 2) throw refused(topic, `has ${MIN_INSYNC}=${insync} and needs 2`);
  if (settings.get(UNCLEAN)?.value === 'true') throw refused(topic, `allows unclean leader elections (${UNCLEAN})`);
}

function refused(topic: string, why: string): Error {
  return carillonError(
    'delivery-unsupported',
    `exactly-once: with several brokers a committed trigger must outlive any of them, and topic ${topic} ${why}`,
    { field: 'delivery', token: 'exactly-once' },
  );
}
