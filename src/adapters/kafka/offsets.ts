import { listOffsetsV6 } from '@platformatic/kafka';
import type { Broker, Cluster } from './cluster.ts';

const EARLIEST = -2n;
const LATEST = -1n;
const READ_UNCOMMITTED = 0;
const READ_COMMITTED = 1;
/** The ends of a log. `end` is that of what is committed and has no open transaction before it, `written` that of all. */
const ENDS = {
  first: { timestamp: EARLIEST, isolation: READ_COMMITTED },
  end: { timestamp: LATEST, isolation: READ_COMMITTED },
  written: { timestamp: LATEST, isolation: READ_UNCOMMITTED },
} as const;
type End = keyof typeof ENDS;

/** Offsets of partitions, in their order; one request per leader. */
export async function offsetsOf(
  cluster: Cluster,
  topic: string,
  partitions: readonly number[],
  which: End,
): Promise<number[]> {
  return cluster.repeat(`offsets of ${topic}`, async () => {
    try {
      const leaders = await Promise.all(partitions.map((partition) => cluster.leader(topic, partition)));
      const byLeader = Map.groupBy(partitions, (_, i) => leaders[i]!);
      const found = await Promise.all([...byLeader].map(([leader, own]) => ask(cluster, leader, topic, own, which)));
      const offsets = new Map(found.flat());
      return partitions.map((partition) => offsets.get(partition)!);
    } catch (error) {
      cluster.forget(topic);
      throw error;
    }
  });
}

export async function offsetOf(cluster: Cluster, topic: string, partition: number, which: End): Promise<number> {
  return (await offsetsOf(cluster, topic, [partition], which))[0]!;
}

async function ask(
  cluster: Cluster,
  leader: Broker,
  topic: string,
  partitions: readonly number[],
  which: End,
): Promise<[number, number][]> {
  const asked = partitions.map((partitionIndex) => ({
    partitionIndex,
    currentLeaderEpoch: -1,
    timestamp: ENDS[which].timestamp,
  }));
  const connection = await cluster.to(leader);
  const answer = await listOffsetsV6.api.async(connection, -1, ENDS[which].isolation, [
    { name: topic, partitions: asked },
  ]);
  return answer.topics[0]!.partitions.map(({ partitionIndex, offset }) => [partitionIndex, Number(offset)]);
}
