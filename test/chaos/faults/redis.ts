import { Redis } from 'ioredis';
import { runningServers } from '../../../deploy/local/instance.ts';
import { redisPrimaries, watchedPrimary } from '../../../deploy/local/leaders.ts';
import { killMember, startMember } from '../../../deploy/local/members.ts';
import type { Fault } from '../fault.ts';
import { LIMITS } from '../limits.ts';
import type { World } from '../world.ts';

async function inRedis<T>(world: World, name: string, work: (client: Redis) => Promise<T>): Promise<T> {
  const server = runningServers(world.which).find((one) => one.name === name);
  if (server === undefined) throw new Error(`${name} does not run`);
  const client = new Redis({ host: server.host, port: server.ports[0]!, retryStrategy: () => null });
  client.on('error', () => {});
  try {
    return await work(client);
  } finally {
    client.disconnect();
  }
}

const flushed: Fault = {
  name: 'redis-flushed',
  bounds: LIMITS.redisFlushed,
  async strike(world) {
    world.stroke('FLUSHALL');
    await inRedis(world, 'redis', (client) => client.flushall());
    return undefined;
  },
};

async function primaryKilled(world: World, name: string): Promise<void> {
  world.stroke(`kill -9 of ${name}`);
  await killMember(world.which, name);
  await world.until('another process is primary in its place', async () => {
    const primaries = await redisPrimaries(world.which);
    return primaries.length > 0 && !primaries.includes(name);
  });
  await startMember(world.which, name);
}

const sentinel: Fault = {
  name: 'redis-primary-killed-sentinel',
  bounds: LIMITS.redisPrimaryKilled,
  async strike(world) {
    const name = await watchedPrimary(world.which);
    await primaryKilled(world, name);
    // The Sentinels make a replica of it, which takes them about 10 s: then the next failover has somewhere to go.
    await world.until('the old primary follows the new one', async () =>
      inRedis(world, name, async (client) =>
        /^role:slave[\s\S]*^master_link_status:up/m.test(await client.info('replication')),
      ),
    );
    return undefined;
  },
};

const cluster: Fault = {
  name: 'redis-primary-killed-cluster',
  bounds: LIMITS.redisPrimaryKilled,
  async strike(world) {
    const before = await redisPrimaries(world.which);
    const name = world.pick(before);
    world.stroke(`kill -9 of ${name}`);
    await killMember(world.which, name);
    await world.until('a replica is primary in its place', async () => {
      const primaries = await redisPrimaries(world.which);
      return primaries.length === before.length;
    });
    await startMember(world.which, name);
    return undefined;
  },
};

export const redisFaults: Record<'single' | 'sentinel' | 'cluster', readonly Fault[]> = {
  single: [flushed],
  sentinel: [sentinel],
  cluster: [cluster],
};
