/** Which process of an instance leads now, by name: whoever wants to see a failover kills that one. */
import { Connection, metadataV12 } from '@platformatic/kafka';
import { MongoClient } from 'mongodb';
import { runningServers, type ServerProcess, type StartOptions } from './instance.ts';
import { PRIMARY_NAME, withRedis } from './redis-groups.ts';
import type { ServerName } from './settings.ts';

type Which = Pick<StartOptions, 'name' | 'dir'>;

/** The primary of the replica set. @throws when the members that run know none */
export async function mongodbPrimary(which: Which): Promise<string> {
  const processes = of(which, 'mongodb');
  for (const { host, ports, name } of processes) {
    const uri = `mongodb://${host}:${ports[0]}/`;
    await using client = new MongoClient(uri, { directConnection: true, serverSelectionTimeoutMS: 1_000 });
    const hello = await client.db('admin').command({ hello: 1 });
    if (hello['isWritablePrimary'] === true) return name;
  }
  throw new Error('the replica set has no primary now');
}

/** The primaries of Redis: one, or those of a cluster that have hash slots. */
export async function redisPrimaries(which: Which): Promise<string[]> {
  const names: string[] = [];
  for (const member of of(which, 'redis')) {
    if (member.name.startsWith('sentinel')) continue;
    await withRedis(member, async (client) => {
      if (/^role:master/m.test(await client.info('replication'))) names.push(member.name);
    });
  }
  return names;
}

/** Of which of these processes Sentinels say that it is the primary: a former one may not know yet that it is none. */
export async function watchedPrimary(which: Which): Promise<string> {
  const processes = of(which, 'redis');
  const sentinel = processes.find(({ name }) => name.startsWith('sentinel'));
  if (sentinel === undefined) throw new Error('there is no Sentinel');
  const address = await withRedis(sentinel, (client) =>
    client.call('sentinel', 'get-master-addr-by-name', PRIMARY_NAME),
  );
  return nameAt(processes, Number((address as string[])[1]));
}

/** The leader of each partition of a topic; null where there is none now. */
export async function kafkaLeaders(which: Which, topic: string): Promise<(string | null)[]> {
  const processes = of(which, 'kafka');
  const connection = new Connection('carillon-servers', { connectTimeout: 1_000, requestTimeout: 5_000 });
  try {
    await connection.connect(processes[0]!.host, processes[0]!.ports[0]!);
    const { brokers, topics } = await metadataV12.api.async(connection, [topic], false, false);
    const partitions = [...(topics[0]?.partitions ?? [])].sort((a, b) => a.partitionIndex - b.partitionIndex);
    return partitions.map(({ leaderId }) => {
      const port = brokers.find(({ nodeId }) => nodeId === leaderId)?.port;
      return port === undefined ? null : nameAt(processes, port);
    });
  } finally {
    await connection.close();
  }
}

function of(which: Which, server: ServerName): ServerProcess[] {
  return runningServers(which).filter((one) => one.server === server);
}

function nameAt(processes: readonly ServerProcess[], port: number): string {
  const found = processes.find(({ ports }) => ports[0] === port);
  if (found === undefined) throw new Error(`no process of this instance listens on ${port}`);
  return found.name;
}
