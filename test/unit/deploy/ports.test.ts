import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { tryLock } from '../../../deploy/local/locks.ts';
import { HOST, reservePort } from '../../../deploy/local/ports.ts';

/**
 * Below 32768, where Linux begins to give ports to outgoing connections, and far from those of the servers; it depends
 * on the pid, so that two runs of these tests at the same time ask for different ones.
 */
const PREFERRED = 12_000 + (process.pid % 300) * 30;

describe('a port', () => {
  it('moves up past one that somebody listens on', async () => {
    const first = await reservePort(PREFERRED);
    await first.release();
    const listener = createServer().listen(first.port, HOST);
    await once(listener, 'listening');
    const second = await reservePort(PREFERRED);
    expect(second.port).toBeGreaterThan(first.port);
    await second.release();
    listener.close();
    await once(listener, 'close');
  });

  it('is given to one only of many who ask at the same time, and again after its release', async () => {
    const reserved = await Promise.all(Array.from({ length: 20 }, () => reservePort(PREFERRED)));
    const ports = reserved.map(({ port }) => port);
    expect(new Set(ports).size).toBe(20);
    await Promise.all(reserved.map(({ release }) => release()));
    const again = await reservePort(PREFERRED);
    expect(again.port).toBe(Math.min(...ports));
    await again.release();
  });
});

describe('a lock', () => {
  it('is held by one until it is released', async () => {
    const held = await tryLock('test of locks');
    expect(held).not.toBeNull();
    expect(await tryLock('test of locks')).toBeNull();
    await held?.release();
    const next = await tryLock('test of locks');
    expect(next).not.toBeNull();
    await next?.release();
  });
});
