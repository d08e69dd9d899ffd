import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { Connection, findCoordinatorV6, initProducerIdV5 } from '@platformatic/kafka';
import { Redis } from 'ioredis';
import { MongoClient } from 'mongodb';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { mountRefusal } from '../../deploy/local/disk.ts';
import {
  resetServers,
  runningServers,
  serverProcesses,
  startServers,
  stopServers,
  temporaryFolder,
} from '../../deploy/local/instance.ts';
import { freezeMember, killMember, thawMember } from '../../deploy/local/members.ts';
import { identify, isAlive, isFrozen } from '../../deploy/local/process.ts';

const ENTRY = join(import.meta.dirname, '../../deploy/local/servers.ts');
const INSTANCE_MODULE = join(import.meta.dirname, '../../deploy/local/instance.ts');

/** Instances of this test, by folder, so that a failed one leaves nothing running. */
const dirs: string[] = [];
function instance(): { dir: string } {
  const dir = temporaryFolder();
  dirs.push(dir);
  return { dir };
}
afterEach(async () => {
  for (const dir of dirs.splice(0)) await resetServers({ dir });
});

const only = ['redis'] as const;
const portOf = (url: string): number => Number(new URL(url).port);
const pidsOf = (which: { dir: string }): number[] => runningServers(which).map(({ process: { pid } }) => pid);

async function withRedis<T>(url: string, work: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(url);
  try {
    return await work(client);
  } finally {
    client.disconnect();
  }
}

/**
 * A server of somebody else on this port, which hangs up on every caller. Another run of these tests may have taken the
 * port a moment ago; then that one is the stranger.
 */
async function strangerOn(port: number): Promise<Server> {
  const server = createServer((socket) => socket.destroy()).listen(port, '127.0.0.1');
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error;
  });
  return server;
}

/** Runs the command line and gives what it printed. */
async function cli(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = spawn(process.execPath, [ENTRY, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [out, err] = [child.stdout, child.stderr].map((stream) => stream.setEncoding('utf8').toArray());
  const [code] = await once(child, 'close');
  return { code, out: (await out)?.join('') ?? '', err: (await err)?.join('') ?? '' };
}

describe.skipIf(inject('servers') === null)('instances of the servers', () => {
  it('stand side by side with ports and data of their own, also when both are started at the same time', async () => {
    const [one, two] = [instance(), instance()];
    const [first, second] = await Promise.all([startServers({ ...one, only }), startServers({ ...two, only })]);
    expect(portOf(first.redis.url)).not.toBe(portOf(second.redis.url));
    await withRedis(first.redis.url, (client) => client.set('key', 'of the first'));
    expect(await withRedis(second.redis.url, (client) => client.get('key'))).toBeNull();
    await first.stop();
    expect(await withRedis(second.redis.url, (client) => client.ping())).toBe('PONG');
  });

  it('are started once: a second start, alone or at the same time, gives the same process and address', async () => {
    const which = instance();
    const [first, second] = await Promise.all([startServers({ ...which, only }), startServers({ ...which, only })]);
    const pids = pidsOf(which);
    const third = await startServers({ ...which, only });
    expect([second.redis, third.redis]).toEqual([first.redis, first.redis]);
    expect(pidsOf(which)).toEqual(pids);
    expect(pids).toHaveLength(1);
  });

  it('leave no process alive after stop, keep their data, and lose them by reset', async () => {
    const which = instance();
    const { redis } = await startServers({ ...which, only });
    await withRedis(redis.url, (client) => client.set('key', 'kept'));
    const [server] = runningServers(which);
    await stopServers(which);
    expect(server && isAlive(server.process)).toBe(false);
    expect(runningServers(which)).toEqual([]);
    expect(existsSync(join(which.dir, 'ports.json'))).toBe(false);
    const again = await startServers({ ...which, only });
    expect(await withRedis(again.redis.url, (client) => client.get('key'))).toBe('kept');
    await resetServers(which);
    expect(existsSync(which.dir)).toBe(false);
  });

  it('take another port where theirs is taken', async () => {
    const [before, after] = [instance(), instance()];
    const { redis } = await startServers({ ...before, only });
    await stopServers(before);
    const stranger = await strangerOn(portOf(redis.url));
    const moved = await startServers({ ...after, only });
    expect(portOf(moved.redis.url)).not.toBe(portOf(redis.url));
    stranger.close();
  });

  it('bring a replica set back to a primary when its data come back on another port', async () => {
    const which = instance();
    const mongodbOnly = { ...which, only: ['mongodb'], small: true } as const;
    const { mongodb } = await startServers(mongodbOnly);
    const write = async (uri: string, id: number): Promise<number> => {
      await using client = new MongoClient(uri);
      const things = client.db('test').collection<{ _id: number }>('things');
      await things.insertOne({ _id: id }, { writeConcern: { w: 'majority' } });
      return await things.countDocuments();
    };
    expect(await write(mongodb.uri, 1)).toBe(1);
    await stopServers(which);
    const stranger = await strangerOn(portOf(mongodb.uri));
    const moved = await startServers(mongodbOnly);
    expect(portOf(moved.mongodb.uri)).not.toBe(portOf(mongodb.uri));
    expect(await write(moved.mongodb.uri, 2)).toBe(2);
    stranger.close();
  });

  it('that do not start tell what the server said and leave nothing running', async () => {
    const which = instance();
    const settings = { redis: { maxMemoryMB: Number.NaN } };
    await expect(startServers({ ...which, only, settings })).rejects.toThrow(
      /redis ended before it was ready[\s\S]*NaNmb/,
    );
    expect(runningServers(which)).toEqual([]);
  });
});

describe.skipIf(inject('servers') === null)('servers of several processes', () => {
  const settings = { redis: { topology: 'sentinel' } } as const;

  it('are killed, started, frozen and thawed one by one, by name, and stop leaves none', async () => {
    const { dir } = instance();
    await startServers({ dir, only, small: true, settings });
    const processes = serverProcesses({ dir });
    const names = ['redis-1', 'redis-2', 'sentinel-1', 'sentinel-2', 'sentinel-3'];
    expect(processes.map(({ name }) => name)).toEqual(names);
    expect((await cli('kill', 'redis-2', '--dir', dir)).code).toBe(0);
    freezeMember({ dir }, 'sentinel-1');
    const { out } = await cli('status', '--dir', dir);
    expect(out).toMatch(/redis-1 .*running\nredis-2 .*not running\nsentinel-1 .*frozen\nsentinel-2 .*running/);
    thawMember({ dir }, 'sentinel-1');
    expect((await cli('start', 'redis-2', '--dir', dir)).code).toBe(0);
    const after = serverProcesses({ dir });
    expect(after.map(({ ports }) => ports)).toEqual(processes.map(({ ports }) => ports));
    expect(after.every(({ process }) => isAlive(process) && !isFrozen(process))).toBe(true);
    await expect(killMember({ dir }, 'redis-3')).rejects.toThrow('it has redis-1, redis-2, sentinel-1');
    await stopServers({ dir });
    expect(after.some(({ process }) => isAlive(process))).toBe(false);
  });

  it('keep their ports over a stop, and are refused in another number', async () => {
    const { dir } = instance();
    const { redis } = await startServers({ dir, only, small: true, settings });
    expect(redis.url).toMatch(/^redis\+sentinel:\/\/127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\/carillon$/);
    await stopServers({ dir });
    const single = startServers({ dir, only, small: true });
    await expect(single).rejects.toThrow(/has redis as redis-1, redis-2, .*, not as redis: reset it first/);
    expect((await startServers({ dir, only, small: true, settings })).redis).toEqual(redis);
  });

  it('have small disks of their own where that is allowed, which are gone with the instance', async () => {
    const starting = startServers({ temporary: true, only, small: true, diskMiB: 32 });
    if (mountRefusal() !== null) return await expect(starting).rejects.toThrow(/mount/);
    const { dir, stop } = await starting;
    const mounts = (): string => readFileSync('/proc/mounts', 'utf8');
    expect(mounts()).toContain(join(dir, 'redis'));
    await stop();
    expect(mounts()).not.toContain(dir);
    expect(existsSync(dir)).toBe(false);
  });
});

describe.skipIf(inject('servers') === null)('a temporary instance', () => {
  it('is gone with its folder after stop', async () => {
    const { dir, stop } = await startServers({ temporary: true, only });
    const [server] = runningServers({ dir });
    await stop();
    expect(server && isAlive(server.process)).toBe(false);
    expect(existsSync(dir)).toBe(false);
  });

  it('dies with a killed owner, and the next temporary start removes what it left', async () => {
    const script = `
      import { startServers } from ${JSON.stringify(INSTANCE_MODULE)};
      const { dir } = await startServers({ temporary: true, only: ['redis'] });
      console.log(dir);
      process.stdin.on('end', () => process.exit()).resume();`;
    const owner = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const [line] = await once(owner.stdout.setEncoding('utf8'), 'data');
    const dir = String(line).trim();
    const [server] = runningServers({ dir });
    expect(server && isAlive(server.process)).toBe(true);
    owner.kill('SIGKILL');
    await once(owner, 'exit');
    await expect.poll(() => server && isAlive(server.process), { timeout: 20_000 }).toBe(false);
    expect(existsSync(dir)).toBe(true);
    await using next = await startServersUntilDisposed();
    expect(existsSync(dir)).toBe(false);
    expect(existsSync(next.dir)).toBe(true);
  });
});

async function startServersUntilDisposed(): Promise<AsyncDisposable & { dir: string }> {
  const { dir, stop } = await startServers({ temporary: true, only });
  return { dir, [Symbol.asyncDispose]: stop };
}

describe.skipIf(inject('servers') === null)('the command line', () => {
  it('starts, shows and stops an instance across processes', async () => {
    const { dir } = instance();
    const started = await cli('start', '--dir', dir, '--only', 'redis', '--json');
    expect(started.code).toBe(0);
    const { servers } = JSON.parse(started.out);
    expect(Object.keys(servers)).toEqual(['redis']);
    expect(identify(servers.redis.pid)).not.toBeNull();
    expect(JSON.parse(readFileSync(join(dir, 'ports.json'), 'utf8')).redis).toMatchObject({
      host: '127.0.0.1',
      port: servers.redis.ports[0],
      url: servers.redis.url,
      pid: servers.redis.pid,
    });
    expect(JSON.parse((await cli('status', '--dir', dir, '--json')).out)).toEqual(JSON.parse(started.out));
    expect((await cli('stop', '--dir', dir)).code).toBe(0);
    expect(identify(servers.redis.pid)).toBeNull();
    expect(JSON.parse((await cli('status', '--dir', dir, '--json')).out).servers).toEqual({});
  });

  it.each([
    [['begin'], 'there is no command begin'],
    [[], 'give one command'],
    [['start', '--only', 'postgres'], '--only takes mongodb, redis, kafka, not "postgres"'],
    [['start', '--kafka-heap', '-1'], 'ambiguous'],
    [['start', '--kafka-heap=0'], '--kafka-heap takes a number above 0, not "0"'],
    [['start', '--colour', 'red'], "Unknown option '--colour'"],
  ])('refuses %j with the usage', async (args, message) => {
    const { code, err } = await cli(...args);
    expect(code).toBe(2);
    expect(err).toContain(message);
    expect(err).toContain('npm run servers -- start|stop|status|reset');
  });

  it('tells all that is missing and leaves with 1 where nothing can be run', async () => {
    const { dir } = instance();
    const child = spawn(process.execPath, [ENTRY, 'start', '--dir', dir, '--only', 'kafka'], {
      env: { PATH: '/nowhere', CARILLON_JAVA: '/nowhere/java' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const err = child.stderr.setEncoding('utf8').toArray();
    const [code] = await once(child, 'close');
    expect(code).toBe(1);
    expect((await err).join('')).toContain('Java 17 or newer (there is no program /nowhere/java)');
  });
});

describe.skipIf(inject('servers') === null)('a Kafka that is ready', () => {
  it('serves the very first group and the very first transactional id without asking for patience', async () => {
    const { kafka, stop } = await startServers({ temporary: true, small: true, only: ['kafka'] });
    const { hostname, port } = new URL(`kafka://${kafka.brokers[0]}`);
    const connection = new Connection('first');
    try {
      await connection.connect(hostname, Number(port));
      await findCoordinatorV6.api.async(connection, 0, ['first group']);
      await findCoordinatorV6.api.async(connection, 1, ['first id']);
      const producer = await initProducerIdV5.api.async(connection, 'first id', 5000);
      expect(producer).toMatchObject({ errorCode: 0, producerEpoch: 0 });
    } finally {
      await connection.close();
      await stop();
    }
  });
});

describe.skipIf(inject('servers') === null)('the servers of this run', () => {
  it('are given with all three addresses, on 127.0.0.1', () => {
    const servers = inject('servers');
    expect(servers?.mongodb).toMatch(/^mongodb:\/\/127\.0\.0\.1:\d+\/\?replicaSet=rs0$/);
    expect(servers?.redis).toMatch(/^redis:\/\/127\.0\.0\.1:\d+$/);
    expect(servers?.kafka).toEqual([expect.stringMatching(/^127\.0\.0\.1:\d+$/)]);
  });
});
