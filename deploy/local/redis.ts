import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { DEBIAN_LIBRARIES } from './download.ts';
import { HOST } from './ports.ts';
import { redisVersion, systemRedis } from './prerequisites.ts';
import { formCluster, PRIMARY_NAME, refuseBrokenWatch, SENTINEL_MAJORITY, withRedis } from './redis-groups.ts';
import { type Member, numbered, type Place, type ServerKind } from './server.ts';
import type { RedisSettings } from './settings.ts';

const CLUSTER_NODES = 6;
const SENTINELS = 3;
/** A primary that is silent for this long is replaced, in ms: the patience of Sentinels, or of a cluster's nodes. */
const SILENT_MS = 1_500;

export const redis: ServerKind<'redis'> = {
  name: 'redis',
  stopGraceMs: () => 10_000,
  version: (dist) => {
    const { program, libraries } = redisProgram(dist);
    return redisVersion(program, libraries);
  },
  members: ({ topology }) => {
    if (topology === 'single') return [{ name: 'redis', ports: [26_371] }];
    // The second port of a cluster's node is that of the nodes among each other.
    if (topology === 'cluster') return numbered('redis', CLUSTER_NODES, [26_801, 26_901]);
    return [...numbered('redis', 2, [26_711]), ...numbered('sentinel', SENTINELS, [26_741])];
  },
  command: async (place, settings) => {
    const { program, libraries } = redisProgram(place.dist);
    return { file: program, args: await argumentsOf(place, settings), env: { LD_LIBRARY_PATH: libraries } };
  },
  address: (members, { topology }) => {
    const hosts = (some: readonly Member[]): string => some.map(({ ports }) => `${HOST}:${ports[0]}`).join(',');
    if (topology === 'cluster') return { url: `redis+cluster://${hosts(members)}` };
    if (topology === 'sentinel')
      return { url: `redis+sentinel://${hosts(members.filter(isSentinel))}/${PRIMARY_NAME}` };
    return { url: `redis://${hosts(members)}` };
  },
  ready: async (members, { topology }) => {
    await Promise.all(members.map((member) => withRedis(member, answers)));
    if (topology === 'cluster') await formCluster(members);
    if (topology === 'sentinel') await refuseBrokenWatch(members.filter(isSentinel));
  },
  serves: async (member, { topology }) =>
    await withRedis(member, async (client) => {
      await answers(client);
      if (topology === 'single' || isSentinel(member)) return;
      const replication = await client.info('replication');
      const serves = /^role:master/m.test(replication) || /^master_link_status:up/m.test(replication);
      if (!serves) throw new Error('it has not caught up with its primary');
    }),
};

const isSentinel = ({ name }: Member): boolean => name.startsWith('sentinel');

async function answers(client: Redis): Promise<void> {
  const answer = await client.ping();
  const persistence = await client.info('persistence');
  // A Sentinel has nothing to load and says nothing of it.
  if (answer !== 'PONG' || /^loading:1\r?$/m.test(persistence)) throw new Error('it still loads its data');
}

/** The redis-server of the system where it is new enough, else the fetched one with its libraries. */
function redisProgram(dist: string): { program: string; libraries: string } {
  const system = systemRedis();
  if (system) return { program: system, libraries: '' };
  return { program: join(dist, 'usr/bin/redis-server'), libraries: join(dist, DEBIAN_LIBRARIES) };
}

/** Durable by its append-only file alone, synced every second; full memory refuses writes and evicts nothing. */
export function redisArguments(data: string, port: number, settings: RedisSettings): string[] {
  return [
    ...['--bind', HOST, '--port', String(port), '--protected-mode', 'yes', '--daemonize', 'no'],
    ...['--dir', data, '--appendonly', 'yes', '--appendfsync', 'everysec', '--save', ''],
    ...['--maxmemory', `${settings.maxMemoryMB}mb`, '--maxmemory-policy', 'noeviction'],
  ];
}

async function argumentsOf(place: Place, settings: RedisSettings): Promise<string[]> {
  const { member, data } = place;
  const [port = 0, busPort = 0] = member.ports;
  if (settings.topology === 'single') return redisArguments(data, port, settings);
  if (settings.topology === 'cluster') {
    // Slots whose primary is gone are no reason to refuse the others.
    const cluster = ['--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no'];
    const own = ['--cluster-port', String(busPort), '--cluster-node-timeout', String(SILENT_MS)];
    return [...redisArguments(data, port, settings), ...cluster, ...own, '--repl-diskless-sync-delay', '0'];
  }
  // Sentinels write into these files who is primary, so they are made once and left alone.
  const file = join(data, 'server.conf');
  if (!existsSync(file)) await writeFile(file, configOf(place));
  if (isSentinel(member)) return [file, '--sentinel'];
  return [file, ...redisArguments(data, port, settings), '--repl-diskless-sync-delay', '0'];
}

function configOf({ data, member, members }: Place): string {
  const [port = 0] = member.ports;
  const [primary, ...others] = members;
  const primaryPort = primary?.ports[0] ?? 0;
  if (!isSentinel(member)) return others.includes(member) ? `replicaof ${HOST} ${primaryPort}\n` : '';
  const lines = [
    `bind ${HOST}`,
    `port ${port}`,
    `dir ${data}`,
    `sentinel monitor ${PRIMARY_NAME} ${HOST} ${primaryPort} ${SENTINEL_MAJORITY}`,
    `sentinel down-after-milliseconds ${PRIMARY_NAME} ${SILENT_MS}`,
    `sentinel failover-timeout ${PRIMARY_NAME} 6000`,
  ];
  return `${lines.join('\n')}\n`;
}
