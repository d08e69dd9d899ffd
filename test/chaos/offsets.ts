/** Whether every partition can be read to its end by read-committed readers: no open transaction is left behind. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, listOffsetsV6, metadataV12 } from '@platformatic/kafka';

const LATEST = -1n;
const ISOLATION = { everything: 0, committed: 1 } as const;
const LOOK_MS = 200;

type Offsets = Map<string, number>;

/** Ends of all partitions of Carillon's topics, by `topic/partition`, as everybody or only read-committed readers see them. */
async function endsOf(brokers: readonly string[], isolation: keyof typeof ISOLATION): Promise<Offsets> {
  const ends: Offsets = new Map();
  const { leaders, topics } = await at(brokers[0]!, async (connection) => {
    const answer = await metadataV12.api.async(connection, null, false, false);
    const address = new Map(answer.brokers.map(({ nodeId, host, port }) => [nodeId, `${host}:${port}`]));
    return { leaders: address, topics: answer.topics.filter(({ name }) => name?.startsWith('carillon.')) };
  });
  const all = topics.flatMap(({ name, partitions }) =>
    partitions.map(({ partitionIndex, leaderId }) => ({ name: name!, partitionIndex, leaderId })),
  );
  for (const [leaderId, own] of Map.groupBy(all, (one) => one.leaderId)) {
    const leader = leaders.get(leaderId);
    if (leader === undefined) throw new Error(`${own.length} partitions have no leader`);
    const asked = [...Map.groupBy(own, ({ name }) => name)].map(([name, some]) => ({
      name,
      partitions: some.map(({ partitionIndex }) => ({ partitionIndex, currentLeaderEpoch: -1, timestamp: LATEST })),
    }));
    const answer = await at(leader, (connection) =>
      listOffsetsV6.api.async(connection, -1, ISOLATION[isolation], asked),
    );
    for (const { name, partitions } of answer.topics) {
      for (const { partitionIndex, offset } of partitions) ends.set(`${name}/${partitionIndex}`, Number(offset));
    }
  }
  return ends;
}

async function at<T>(broker: string, work: (connection: Connection) => Promise<T>): Promise<T> {
  const [host, port] = broker.split(':');
  const connection = new Connection('chaos', { connectTimeout: 2_000, requestTimeout: 5_000 });
  try {
    await connection.connect(host!, Number(port));
    return await work(connection);
  } finally {
    await connection.close();
  }
}

/**
 * Partitions in which something that was written before the call is still held back from read-committed readers when the
 * patience is over; none is right. Transactions that are on the way at the call come to their end in the meantime.
 */
export async function heldBack(brokers: readonly string[], patienceMs: number): Promise<string[]> {
  const written = await endsOf(brokers, 'everything');
  const until = performance.now() + patienceMs;
  for (;;) {
    const committed = await endsOf(brokers, 'committed');
    const held = [...written].filter(([partition, end]) => (committed.get(partition) ?? 0) < end).map(([name]) => name);
    if (held.length === 0 || performance.now() > until) return held;
    await sleep(LOOK_MS);
  }
}
