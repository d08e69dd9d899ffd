import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { redisDeduplicator } from '../../src/sdk/deduplicator.ts';

const servers = inject('servers');

describe.skipIf(servers === null)('de-duplication in Redis', () => {
  let redis: Redis;
  let serial = 0;
  const pair = (leaseMs: number) => {
    const prefix = `dedup-${process.pid}-${++serial}:`;
    const make = () => redisDeduplicator(redis, { leaseMs, keepMs: 60_000, prefix });
    return { a: make(), b: make(), key: (id: string) => prefix + id };
  };

  beforeAll(() => {
    redis = new Redis(servers!.redis);
  });
  afterAll(() => redis.quit());

  test('one holder at a time; confirmed is done for all, and remembered for a bounded time', async () => {
    const { a, b, key } = pair(60_000);
    expect(await a.claim('x')).toBe('claimed');
    expect(await b.claim('x')).toBe('held');
    await a.confirm('x');
    expect(await b.claim('x')).toBe('done');
    expect(await a.claim('x')).toBe('done');
    expect(await redis.pttl(key('x'))).toBeGreaterThan(0);
    await Promise.all([a.close!(), b.close!()]);
  });

  test('what is released is free; nobody releases what another has, or what is done', async () => {
    const { a, b } = pair(60_000);
    await a.claim('x');
    await b.release('x');
    expect(await b.claim('x')).toBe('held');
    await a.release('x');
    expect(await b.claim('x')).toBe('claimed');
    await b.confirm('x');
    await b.release('x');
    expect(await a.claim('x')).toBe('done');
    await Promise.all([a.close!(), b.close!()]);
  });

  test('of many that claim at once one gets it', async () => {
    const { a, b } = pair(60_000);
    const claims = await Promise.all(Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? a : b).claim('x')));
    expect(claims.filter((claim) => claim === 'claimed')).toHaveLength(1);
    await Promise.all([a.close!(), b.close!()]);
  });

  test('a living holder keeps its claim past the lease; a dead one loses it', async () => {
    const { a, b, key } = pair(300);
    await a.claim('x');
    // Its time left rises again only where it was renewed.
    let before = await redis.pttl(key('x'));
    for (let renewals = 0; renewals < 5; ) {
      const now = await redis.pttl(key('x'));
      if (now > before) renewals += 1;
      before = now;
    }
    expect(await b.claim('x')).toBe('held');
    await a.close!();
    while ((await redis.exists(key('x'))) === 1);
    expect(await b.claim('x')).toBe('claimed');
    // The former holder may still come to its end: then it is done, and the new one's copy is dropped.
    await a.confirm('x');
    expect(await b.claim('x')).toBe('done');
    await b.close!();
  });
});
