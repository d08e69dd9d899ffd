import { Redis } from 'ioredis';
import { runningServers } from '../../../deploy/local/instance.ts';
import { redisPrimaries, watchedPrimary } from '../../../deploy/local/leaders.ts';
import { killMember, startMember } from '../../../deploy/local/members.ts';
import type { Fault, Told } from '../fault.ts';
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
    await world.oneRound();
    return undefined;
  },
};

/** Bytes that all primaries use. */
async function memory(world: World): Promise<number> {
  const names = await redisPrimaries(world.which);
  const used = await Promise.all(
    names.map((name) =>
      inRedis(world, name, async (client) =>
        Number(/used_memory_dataset:(\d+)/.exec(await client.info('memory'))?.[1]),
      ),
    ),
  );
  return used.reduce((sum, one) => sum + one, 0);
}

/** Jobs are registered meanwhile, and buffers come and go: twice as much is growth, and nothing below 8 MiB is. */
function flat(before: number, after: number): Told {
  const MiB = 1024 * 1024;
  const notes = [`Redis holds ${(after / MiB).toFixed(1)} MiB, before ${(before / MiB).toFixed(1)}`];
  return after > 2 * before && after > 8 * MiB ? { notes, wrong: [`memory grew: ${notes[0]}`] } : { notes };
}

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
    const before = await memory(world);
    await primaryKilled(world, name);
    // The Sentinels make a replica of it, which takes them about 10 s: then the next failover has somewhere to go.
    await world.until('the old primary follows the new one', async () =>
      inRedis(world, name, async (client) =>
        /^role:slave[\s\S]*^master_link_status:up/m.test(await client.info('replication')),
      ),
    );
    await world.oneRound();
    return flat(before, await memory(world));
  },
};

const cluster: Fault = {
  name: 'redis-primary-killed-cluster',
  bounds: LIMITS.redisPrimaryKilled,
  async strike(world) {
    const before = await redisPrimaries(world.which);
    const memoryBefore = await memory(world);
    const name = world.pick(before);
    world.stroke(`kill -9 of ${name}`);
    await killMember(world.which, name);
    await world.until('a replica is primary in its place', async () => {
      const primaries = await redisPrimaries(world.which);
      return primaries.length === before.length;
    });
    await startMember(world.which, name);
    await world.oneRound();
    return flat(memoryBefore, await memory(world));
  },
};

export const redisFaults: Record<'single' | 'sentinel' | 'cluster', readonly Fault[]> = {
  single: [flushed],
  sentinel: [sentinel],
  cluster: [cluster],
};
