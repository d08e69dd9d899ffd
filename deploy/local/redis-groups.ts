import { Redis } from 'ioredis';
import { HOST } from './ports.ts';
import type { Member } from './server.ts';

/** The name under which Sentinels know the primary. */
export const PRIMARY_NAME = 'carillon';
/** So many Sentinels must find a primary gone, and elect the one that replaces it. */
export const SENTINEL_MAJORITY = 2;

const HASH_SLOTS = 16_384;
const PRIMARIES = 3;

export async function withRedis<T>(member: Member, work: (client: Redis) => Promise<T>): Promise<T> {
  const port = member.ports[0] ?? 0;
  const client = new Redis({ host: HOST, port, lazyConnect: true, retryStrategy: () => null, connectTimeout: 1000 });
  // Errors reach us through the calls; an emitter without a listener would print them as well.
  client.on('error', () => {});
  try {
    await client.connect();
    return await work(client);
  } finally {
    client.disconnect();
  }
}

/** Every Sentinel knows a primary with a replica in step, and all other Sentinels. @throws while it is not so */
export async function refuseBrokenWatch(sentinels: readonly Member[]): Promise<void> {
  for (const sentinel of sentinels) {
    await withRedis(sentinel, async (client) => {
      const primary = fields(await client.call('sentinel', 'master', PRIMARY_NAME));
      const replicas = ((await client.call('sentinel', 'replicas', PRIMARY_NAME)) as unknown[]).map(fields);
      const inStep = replicas.filter(
        (replica) => replica.get('flags') === 'slave' && replica.get('master-link-status') === 'ok',
      );
      const others = Number(primary.get('num-other-sentinels'));
      if (primary.get('flags') !== 'master' || inStep.length === 0 || others !== sentinels.length - 1) {
        throw new Error(`${sentinel.name} knows ${inStep.length} replicas in step and ${others} other Sentinels`);
      }
    });
  }
}

/** A Sentinel answers a list of names and values in turn. */
function fields(answer: unknown): Map<string, string> {
  const list = answer as string[];
  return new Map(list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1] ?? '']] : [])));
}

/**
 * Makes a cluster of nodes that know nothing of each other: the first three share the hash slots, each of the others follows
 * one of them. What a former call did is not done again. @throws while it is not whole
 */
export async function formCluster(members: readonly Member[]): Promise<void> {
  const ids = new Map<Member, string>();
  for (const [index, member] of members.entries()) {
    await withRedis(member, async (client) => {
      ids.set(member, String(await client.call('cluster', 'MYID')));
      const nodes = String(await client.call('cluster', 'NODES'));
      if (index < PRIMARIES && !/\d+-\d+|slave/.test(nodes)) {
        const from = Math.ceil((HASH_SLOTS * index) / PRIMARIES);
        const upTo = Math.ceil((HASH_SLOTS * (index + 1)) / PRIMARIES) - 1;
        await client.call('cluster', 'ADDSLOTSRANGE', String(from), String(upTo));
      }
      if (nodes.trim().split('\n').length < members.length) {
        for (const { ports } of members) await client.call('cluster', 'MEET', HOST, String(ports[0]), String(ports[1]));
      }
    });
  }
  for (const [index, member] of members.entries()) {
    if (index < PRIMARIES) continue;
    await withRedis(member, async (client) => {
      const nodes = String(await client.call('cluster', 'NODES'));
      if (/slave/.test(/^.*myself.*$/m.exec(nodes)?.[0] ?? '') || /myself.* \d+-\d+/.test(nodes)) return;
      await client.call('cluster', 'REPLICATE', ids.get(members[index - PRIMARIES]!) ?? '');
    });
  }
  await Promise.all(members.map((member) => withRedis(member, (client) => refuseUnwhole(client, members.length))));
}

async function refuseUnwhole(client: Redis, count: number): Promise<void> {
  const info = String(await client.cluster('INFO'));
  const nodes = String(await client.call('cluster', 'NODES'))
    .trim()
    .split('\n');
  const primaries = nodes.filter((node) => / (myself,)?master /.test(node) && / \d+-\d+/.test(node));
  const replicas = nodes.filter((node) => / (myself,)?slave /.test(node));
  const replication = await client.info('replication');
  const inStep = /^role:master/m.test(replication) || /^master_link_status:up/m.test(replication);
  const whole = /cluster_state:ok/.test(info) && primaries.length === PRIMARIES;
  if (!whole || replicas.length !== count - PRIMARIES || !inStep) {
    throw new Error(
      `it knows ${primaries.length} primaries and ${replicas.length} replicas, and is in step: ${inStep}`,
    );
  }
}
