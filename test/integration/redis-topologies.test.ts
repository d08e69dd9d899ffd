import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { download } from '../../deploy/local/download.ts';
import { resetServers, temporaryFolder } from '../../deploy/local/instance.ts';
import { type ReservedPort, reservePort } from '../../deploy/local/ports.ts';
import { type ProcessIdentity, spawnServer, stopProcess } from '../../deploy/local/process.ts';
import { redis } from '../../deploy/local/redis.ts';
import { SMALL } from '../../deploy/local/settings.ts';
import { connectRedis } from '../../src/adapters/redis/connect.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';

const servers = inject('servers');
const HOST = '127.0.0.1';
const record = new TextEncoder().encode('a record');

/** Redis processes with arguments of their own, which the tool for local servers does not start. */
class Processes {
  readonly dir = temporaryFolder();
  readonly running: ProcessIdentity[] = [];
  readonly reserved: ReservedPort[] = [];

  async port(preferred: number): Promise<number> {
    const port = await reservePort(preferred);
    this.reserved.push(port);
    return port.port;
  }

  async start(port: number, more: readonly string[], config?: string): Promise<Redis> {
    const data = join(this.dir, String(port));
    await mkdir(data, { recursive: true });
    const dist = await download(join(import.meta.dirname, '../../.servers/dist'), 'redis', () => {});
    const member = { name: 'redis', ports: [port] };
    const program = await redis.command({ dist, data, member, members: [member] }, SMALL.redis);
    const file = join(data, 'server.conf');
    if (config !== undefined) await writeFile(file, config);
    const args = config === undefined ? [...program.args, ...more] : [file, ...more];
    const logFile = join(data, 'log');
    this.running.push(await spawnServer({ ...program, args, cwd: data, logFile }, true));
    const client = new Redis({ host: HOST, port, retryStrategy: () => 20 });
    client.on('error', () => {});
    await client.ping();
    return client;
  }

  async stop(): Promise<void> {
    for (const identity of this.running) await stopProcess(identity, 2_000);
    for (const port of this.reserved) await port.release();
    await resetServers({ dir: this.dir });
  }
}

/**
 * Asks until the answer is the right one; the limit is the number of tries. A Sentinel waits 8 s before it turns a former
 * primary into a replica, and learns of its role up to 10 s later, so 10 s of tries would be too few.
 */
async function until(ask: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 4_000; tries += 1) {
    if (await ask()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('it did not come to be');
}

describe.skipIf(servers === null)('a Redis Cluster of two nodes', () => {
  const processes = new Processes();
  const clients: Redis[] = [];
  const nodes: { host: string; port: number }[] = [];

  beforeAll(async () => {
    for (const preferred of [23_711, 23_721]) {
      const port = await processes.port(preferred);
      // The bus of the cluster has a port of its own, which must be free as well.
      const bus = await processes.port(port + 4_000);
      for (const reserved of processes.reserved.splice(0)) await reserved.release();
      nodes.push({ host: HOST, port });
      clients.push(await processes.start(port, ['--cluster-enabled', 'yes', '--cluster-port', String(bus)]));
      await clients
        .at(-1)!
        .call('cluster', 'ADDSLOTSRANGE', ...(clients.length === 1 ? ['0', '8191'] : ['8192', '16383']));
    }
    const bus = await clients[1]!.config('GET', 'cluster-port');
    await clients[0]!.call('cluster', 'MEET', HOST, String(nodes[1]!.port), (bus as string[])[1]!);
    await until(async () => {
      const infos = await Promise.all(clients.map((client) => client.cluster('INFO')));
      return infos.every((info) => /cluster_state:ok/.test(String(info)) && /cluster_known_nodes:2/.test(String(info)));
    });
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await processes.stop();
  });

  test('every method works for shards on both nodes: the keys of a shard are in one hash slot', async () => {
    const store = await connectRedis({ nodes: [nodes[0]!], prefix: 'cluster' }, silentTelemetry);
    const shards = Array.from({ length: 40 }, (_, shard) => shard);
    for (const shard of shards) {
      const change = { version: 1, score: 50, record };
      await store.reset(shard, 1, 1);
      const request = { epoch: 1, expectedHorizonMs: 0, fromMs: 0 };
      expect(await store.scan(shard, { ...request, horizonMs: 0, build: 1 })).toEqual({ status: 'ok', due: [] });
      await store.add(shard, [
        { number: 1, ...change },
        { number: 2, ...change, score: 51 },
        { number: 3, ...change, score: null, record: null },
      ]);
      expect(await store.claim(shard, 1)).toMatchObject({ horizonMs: 0, formerEpoch: 1, whole: true });
      const restored = { number: 4, ...change, score: 1_000 };
      expect(await store.restore(shard, 1, [restored])).toEqual([{ outcome: 'applied', reachesOwner: false }]);
      expect(await store.compare(shard, [{ number: 4, version: 2, member: true }])).toEqual([0]);
      const scanned = await store.scan(shard, { ...request, horizonMs: 100 });
      expect(scanned).toMatchObject({ status: 'ok', due: [{ number: 1 }, { number: 2 }] });
      expect(await store.writeBack(shard, 1, [{ number: 1, version: 1, score: 0 }])).toMatchObject({ missing: [] });
      expect(await store.finished(shard, 10)).toEqual([{ number: 1, version: 1 }]);
      await store.removeFinished(shard, [{ number: 1, version: 1 }]);
      expect(await store.count(shard)).toEqual({ members: 2, finished: 0 });
      expect(await store.sweep(shard, (await store.timeMs()) + 60_000, 10)).toBe(1);
    }
    const sizes = await Promise.all(clients.map((client) => client.dbsize()));
    expect(sizes.every((size) => size > 0)).toBe(true);
    for (const shard of shards) await store.drop(shard);
    expect(await Promise.all(clients.map((client) => client.dbsize()))).toEqual([0, 0]);
    await store.close();
  });

  test('a node that is cut off comes back, which the count of connections tells', async () => {
    const store = await connectRedis({ nodes, prefix: 'cut' }, silentTelemetry);
    for (const shard of [1, 2, 3, 4]) await store.claim(shard, 1);
    const before = store.connections();
    await clients[1]!.call('client', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await until(async () => store.connections() > before);
    for (const shard of [1, 2, 3, 4])
      expect(await store.claim(shard, 2)).toMatchObject({ status: 'ok', formerEpoch: 1 });
    for (const shard of [1, 2, 3, 4]) await store.drop(shard);
    await store.close();
  });

  test('every node is checked: an eviction policy on the second one is refused', async () => {
    await clients[1]!.config('SET', 'maxmemory-policy', 'allkeys-random');
    const refused = connectRedis({ nodes, prefix: 'cluster' }, silentTelemetry);
    await expect(refused).rejects.toMatchObject({ code: 'setup-refused' });
    await clients[1]!.config('SET', 'maxmemory-policy', 'noeviction');
  });
});

describe.skipIf(servers === null)('a Redis behind a Sentinel', () => {
  const processes = new Processes();
  const clients: Redis[] = [];
  let sentinel = 0;
  let primary = 0;
  let replica = 0;

  beforeAll(async () => {
    primary = await processes.port(23_811);
    replica = await processes.port(23_821);
    sentinel = await processes.port(23_831);
    for (const reserved of processes.reserved.splice(0)) await reserved.release();
    clients.push(await processes.start(primary, []));
    clients.push(
      await processes.start(replica, ['--replicaof', `${HOST} ${primary}`, '--repl-diskless-sync-delay', '0']),
    );
    const config = [
      `port ${sentinel}`,
      `bind ${HOST}`,
      `dir ${join(processes.dir, String(sentinel))}`,
      `sentinel monitor carillon ${HOST} ${primary} 1`,
    ];
    clients.push(await processes.start(sentinel, ['--sentinel'], `${config.join('\n')}\n`));
    await until(async () => /slave0:.*state=online/.test(await clients[0]!.info('replication')));
    await until(async () => ((await clients[2]!.call('sentinel', 'replicas', 'carillon')) as unknown[]).length === 1);
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await processes.stop();
  });

  test('the store finds the primary, and the new one after a failover', async () => {
    const sentinels = [{ host: HOST, port: sentinel }];
    const store = await connectRedis(
      { sentinels, name: 'carillon', prefix: 'sentinel', timeoutMs: 1_000 },
      silentTelemetry,
    );
    const change = { number: 1, version: 1, score: 50, record };
    expect(await store.add(1, [change])).toMatchObject([{ outcome: 'applied' }]);
    const lineageOf = async (): Promise<string> => {
      const claimed = await store.claim(1, 1);
      return claimed.status === 'ok' ? claimed.lineage : '';
    };
    const lineage = await lineageOf();
    expect(lineage).toMatch(/^[0-9a-f]{40}$/);
    expect(await lineageOf()).toBe(lineage);
    await until(async () => (await clients[1]!.dbsize()) > 0);
    await until(async () => {
      const told = await clients[2]!.call('sentinel', 'failover', 'carillon').catch((error: Error) => error.message);
      return told === 'OK';
    });
    await until(async () => /role:master/.test(await clients[1]!.info('replication')));
    // Until the Sentinel has told the old primary, it takes writes that are lost with it. From then on it is a replica and
    // refuses, and the store looks for the new one.
    await until(async () => /role:slave/.test(await clients[0]!.info('replication')));
    await until(async () => (await store.add(1, [{ ...change, version: 2 }]).catch(() => null)) !== null);
    expect(store.connections()).toBeGreaterThan(1);
    expect(await lineageOf()).toMatch(/^[0-9a-f]{40}$/);
    expect(await lineageOf()).not.toBe(lineage);
    expect(await clients[1]!.exists('{carillon:sentinel:1}:members')).toBe(1);
    expect(await store.count(1)).toEqual({ members: 1, finished: 0 });
    await store.close();
  });
});
