import { once } from 'node:events';
import { createServer } from 'node:net';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  resetServers,
  runningServers,
  startServers,
  stopServers,
  temporaryFolder,
} from '../../deploy/local/instance.ts';
import { connectRedis, type RedisTriggerStore } from '../../src/adapters/redis/connect.ts';
import type { Telemetry } from '../../src/ports/telemetry.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';

const servers = inject('servers');
const record = new TextEncoder().encode('a record');
const UNAVAILABLE = { code: 'unavailable', retryable: true };

/** Asks again and again until it is answered; the limit is the number of tries. */
async function untilAnswered<T>(ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (tries === 500) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

describe.skipIf(servers === null)('a Redis that fails', () => {
  const dir = temporaryFolder();
  let url: string;
  let admin: Redis;
  let store: RedisTriggerStore;
  let errors: string[];
  const telemetry: Telemetry = {
    ...silentTelemetry,
    count: (name, labels) => {
      if (name === 'redis_errors_total') errors.push(`${labels?.['command']} ${labels?.['code']}`);
    },
  };
  let shard = 0;
  let number = 0;
  const add = (bytes = record) => {
    number += 1;
    return store.add(shard, [{ number, version: 1, score: 5_000, record: bytes }]);
  };

  beforeAll(async () => {
    ({
      redis: { url },
    } = await startServers({ dir, only: ['redis'], small: true }));
    admin = new Redis(url);
    admin.on('error', () => {});
  });
  afterAll(async () => {
    admin.disconnect();
    await resetServers({ dir });
  });
  beforeEach(async () => {
    errors = [];
    shard += 1;
    store = await connectRedis({ url, prefix: 'failures', timeoutMs: 1_000 }, telemetry);
    await store.reset(shard, 1, 1);
    await store.scan(shard, { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: 0, build: 1 });
    await add();
  });
  afterEach(async () => {
    await store.close();
  });

  const scan = (expectedHorizonMs: number, horizonMs: number) =>
    store.scan(shard, { epoch: 1, expectedHorizonMs, fromMs: 0, horizonMs });

  test('BUSY: a script that runs too long', async () => {
    await admin.config('SET', 'busy-reply-threshold', '20');
    const other = new Redis(url);
    const running = other.eval('while true do end', 0).catch((error: Error) => error.message);
    await expect(untilBusy()).resolves.toMatchObject(UNAVAILABLE);
    await admin.script('KILL');
    expect(await running).toContain('Script killed');
    other.disconnect();
    await admin.config('SET', 'busy-reply-threshold', '5000');
    expect(await untilAnswered(() => scan(0, 9_000))).toMatchObject({ status: 'ok' });
    expect(errors).toContain('scan unavailable');

    /** Scans until one fails; H stays, since no epoch is as low as this one. */
    async function untilBusy(): Promise<unknown> {
      for (;;) {
        const error = await store.scan(shard, { epoch: 0, expectedHorizonMs: 0, fromMs: 0, horizonMs: 1 }).then(
          () => null,
          (thrown: unknown) => thrown,
        );
        if (error !== null) return error;
      }
    }
  });

  test('OOM: nothing is added, but what is there is scanned, written back, finished and removed', async () => {
    await admin.config('SET', 'maxmemory', '1mb');
    try {
      await expect(add()).rejects.toMatchObject(UNAVAILABLE);
      expect(await scan(0, 9_000)).toMatchObject({ status: 'ok', due: [{ score: 5_000 }] });
      const member = { number, version: 1 };
      // The one that was refused has the last number; the one before it is there.
      const there = { ...member, number: number - 1 };
      expect(await store.writeBack(shard, 1, [{ ...there, score: 0 }])).toMatchObject({ missing: [] });
      expect(await store.finished(shard, 10)).toEqual([there]);
      await store.removeFinished(shard, [there]);
      expect(await store.count(shard)).toEqual({ members: 0, finished: 0 });
      expect(await store.claim(shard, 2)).toMatchObject({ status: 'ok' });
    } finally {
      await admin.config('SET', 'maxmemory', '512mb');
    }
    expect(await add()).toMatchObject([{ outcome: 'applied' }]);
    expect(errors).toEqual(['add unavailable']);
  });

  test('READONLY: the server became a replica; the connection is made anew', async () => {
    await admin.replicaof('127.0.0.1', 9);
    try {
      await expect(add()).rejects.toMatchObject(UNAVAILABLE);
    } finally {
      await admin.replicaof('NO', 'ONE');
    }
    expect(await untilAnswered(() => add())).toMatchObject([{ outcome: 'applied' }]);
    expect(store.connections()).toBeGreaterThan(1);
  });

  test('a connection that is cut: the next calls pass, and the new connection is counted', async () => {
    expect(store.connections()).toBe(1);
    await admin.call('client', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    expect(await untilAnswered(() => scan(0, 9_000))).toMatchObject({ status: 'ok', due: [{ score: 5_000 }] });
    expect(store.connections()).toBe(2);
  });

  test('SCRIPT FLUSH: scripts are loaded again by themselves', async () => {
    await admin.script('FLUSH');
    expect(await add()).toMatchObject([{ outcome: 'applied' }]);
    expect(await scan(0, 9_000)).toMatchObject({ status: 'ok' });
    expect(errors).toEqual([]);
  });

  test('a server that stands still: calls fail in their time, calls beyond the bound at once, and all is well after it', async () => {
    const { pid } = runningServers({ dir })[0]!.process;
    process.kill(pid, 'SIGSTOP');
    try {
      const results = await Promise.allSettled(Array.from({ length: 1_100 }, () => store.timeMs()));
      const reasons = results.map((one) => (one.status === 'rejected' ? one.reason : one.value));
      expect(reasons.every((reason) => reason.code === 'unavailable')).toBe(true);
      expect(reasons.filter((reason) => String(reason).includes('not yet answered'))).toHaveLength(1_100 - 1_024);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    expect(await untilAnswered(() => add())).toMatchObject([{ outcome: 'applied' }]);
  });

  test('a server that is down: calls fail at once and none is kept for later', async () => {
    await stopServers({ dir });
    const cut = await store.timeMs().catch((error: unknown) => error);
    expect(cut).toMatchObject(UNAVAILABLE);
    number += 1;
    const late = { number, version: 1, score: 5_000, record };
    const results = await Promise.allSettled(Array.from({ length: 5_000 }, () => store.add(shard, [late])));
    expect(results.every((one) => one.status === 'rejected' && one.reason.code === 'unavailable')).toBe(true);
    await startServers({ dir, only: ['redis'], small: true });
    expect(await untilAnswered(() => scan(0, 9_000))).toMatchObject({ status: 'ok' });
    expect(await store.count(shard)).toEqual({ members: 1, finished: 0 });
    expect(await store.add(shard, [late])).toEqual([{ outcome: 'applied', reachesOwner: true }]);
  });

  test.each(['allkeys-lru', 'volatile-ttl'])('is refused with maxmemory-policy %s', async (policy) => {
    await admin.config('SET', 'maxmemory-policy', policy);
    try {
      const refused = await connectRedis({ url, prefix: 'x' }, silentTelemetry).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: 'setup-refused' });
      expect(String(refused)).toContain(`${policy} and may silently drop jobs: set it to noeviction`);
    } finally {
      await admin.config('SET', 'maxmemory-policy', 'noeviction');
    }
  });

  test('is refused with a wrong password, and unavailable where nobody listens', async () => {
    await admin.config('SET', 'requirepass', 'secret');
    try {
      const wrong = connectRedis({ url: url.replace('://', '://:wrong@'), prefix: 'x' }, silentTelemetry);
      await expect(wrong).rejects.toMatchObject({ code: 'setup-refused' });
      const right = await connectRedis({ url: url.replace('://', '://:secret@'), prefix: 'x' }, silentTelemetry);
      expect(await right.timeMs()).toBeGreaterThan(0);
      await right.close();
    } finally {
      await admin.config('SET', 'requirepass', '');
    }
    const nobody = connectRedis({ url: 'redis://127.0.0.1:9', prefix: 'x' }, silentTelemetry);
    await expect(nobody).rejects.toMatchObject({ code: 'unavailable' });
  });

  test('is refused before version 7; the prefix must be a plain word', async () => {
    // No old Redis is at hand: this speaks as much of the protocol as the start check asks.
    const info = '# Server\r\nredis_version:6.2.14\r\nloading:0\r\nmaxmemory_policy:noeviction\r\n';
    const old = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => {
        for (const command of data.toString('latin1').split(/(?=\*\d+\r\n)/)) {
          socket.write(/\binfo\b/i.test(command) ? `$${info.length}\r\n${info}\r\n` : '+OK\r\n');
        }
      });
    }).listen(0, '127.0.0.1');
    await once(old, 'listening');
    const { port } = old.address() as { port: number };
    const refused = await connectRedis({ url: `redis://127.0.0.1:${port}`, prefix: 'x' }, silentTelemetry).catch(
      String,
    );
    expect(refused).toContain('Redis is version 6.2.14: use 7.0 or newer');
    old.close();
    await expect(connectRedis({ url, prefix: 'a{b}' }, silentTelemetry)).rejects.toMatchObject({
      code: 'setup-refused',
    });
  });
});
