import { join } from 'node:path';
import { Redis } from 'ioredis';
import { DEBIAN_LIBRARIES } from './download.ts';
import { HOST } from './ports.ts';
import { redisVersion, systemRedis } from './prerequisites.ts';
import type { ServerKind } from './server.ts';
import type { RedisSettings } from './settings.ts';

export const redis: ServerKind<'redis'> = {
  name: 'redis',
  preferredPorts: [26_371],
  stopGraceMs: 10_000,
  version: (dist) => {
    const { program, libraries } = redisProgram(dist);
    return redisVersion(program, libraries);
  },
  command: async ({ dist, data, ports: [port = 0] }, settings) => {
    const { program, libraries } = redisProgram(dist);
    return { file: program, args: redisArguments(data, port, settings), env: { LD_LIBRARY_PATH: libraries } };
  },
  address: ([port = 0]) => ({ url: `redis://${HOST}:${port}` }),
  ready: async ([port = 0]) => {
    const client = new Redis({ host: HOST, port, lazyConnect: true, retryStrategy: () => null, connectTimeout: 1000 });
    // Errors reach us through the calls below; an emitter without a listener would print them as well.
    client.on('error', () => {});
    try {
      await client.connect();
      const answer = await client.ping();
      const persistence = await client.info('persistence');
      if (answer !== 'PONG' || !/^loading:0\r?$/m.test(persistence)) throw new Error('it still loads its data');
    } finally {
      client.disconnect();
    }
  },
};

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
