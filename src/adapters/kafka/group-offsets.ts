import { offsetCommitV9, offsetFetchV9 } from '@platformatic/kafka';
import type { Cluster } from './cluster.ts';

/** A partition as held by one member in one generation of its group. */
export interface HeldPartition {
  group: string;
  topic: string;
  partition: number;
  generationId: number;
  memberId: string;
}

/**
 * The stored offset, or null. It waits for transactions that are about to store one: else a member that takes a partition
 * over would begin before what the former one's last transaction is just storing.
 */
export async function storedOffset(
  cluster: Cluster,
  { group, topic, partition }: HeldPartition,
): Promise<number | null> {
  const asked = { groupId: group, memberEpoch: -1, topics: [{ name: topic, partitionIndexes: [partition] }] };
  const answer = await cluster.repeat(`offset of ${group} in ${topic}/${partition}`, () =>
    cluster.atCoordinator('group', group, async (broker) =>
      offsetFetchV9.api.async(await cluster.to(broker), [asked], true),
    ),
  );
  const offset = Number(answer.groups[0]?.topics[0]?.partitions[0]?.committedOffset ?? -1n);
  return offset < 0 ? null : offset;
}

/** Stores an offset; the coordinator refuses it when the member does not hold the partition any more. */
export async function storeOffset(cluster: Cluster, held: HeldPartition, next: number): Promise<void> {
  const { group, topic, partition, generationId, memberId } = held;
  const stored = { partitionIndex: partition, committedOffset: BigInt(next), committedLeaderEpoch: -1 };
  await cluster.repeat(`storing the offset of ${group} in ${topic}/${partition}`, () =>
    cluster.atCoordinator('group', group, async (broker) =>
      offsetCommitV9.api.async(await cluster.to(broker), group, generationId, memberId, null, [
        { name: topic, partitions: [stored] },
      ]),
    ),
  );
}
