import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { resetServers, startServers, stopServers, temporaryFolder } from '../../deploy/local/instance.ts';
import { connectRedis } from '../../src/adapters/redis/connect.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import type { TriggerChange } from '../../src/ports/trigger-store.ts';

const servers = inject('servers');
const SHARD = 2 ** 31;
const END = Date.UTC(2100, 0, 1);

/** The times of case O-SC-06; a packed time and counter would be off by one here, since a score is a double. */
const TIMES = [
  '2041-06-15T08:00:00.000Z',
  '2041-06-15T08:00:00.001Z',
  '2041-06-15T08:00:00.002Z',
  '2099-12-31T23:59:59.999Z',
].map((iso) => Date.parse(iso));
const NUMBERS = [0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32, 2 ** 36 - 2, 2 ** 36 - 1];
const VERSIONS = [1, 65_535, 65_536];

/** Every byte there is, so that nothing may be taken for text. */
const binary = (i: number): Uint8Array => Uint8Array.from({ length: 300 }, (_, at) => (at + i) % 256);

describe.skipIf(servers === null)('Redis after a restart (O-SC-06)', () => {
  const dir = temporaryFolder();
  let url: string;
  beforeAll(async () => {
    ({
      redis: { url },
    } = await startServers({ dir, only: ['redis'], small: true }));
  });
  afterAll(() => resetServers({ dir }));

  test('the exact ms, number and version come back, and no two members are mixed up', async () => {
    // Each number has another time and another version; 5,000 more stand in one ms.
    const edge: TriggerChange[] = NUMBERS.map((number, i) => ({
      number,
      version: VERSIONS[i % VERSIONS.length]!,
      score: TIMES[i % TIMES.length]!,
      record: binary(i),
    }));
    const crowd: TriggerChange[] = Array.from({ length: 5_000 }, (_, i) => ({
      number: 1_000 + i,
      version: 1,
      score: TIMES[1]!,
      record: binary(i),
    }));
    const before = await connectRedis({ url, prefix: 'restart' }, silentTelemetry);
    await before.reset(SHARD, 7, 1);
    await before.scan(SHARD, { epoch: 7, expectedHorizonMs: 0, fromMs: 0, horizonMs: 0, build: 1 });
    await before.add(SHARD, [...edge, ...crowd]);
    await before.close();
    await stopServers({ dir });
    await startServers({ dir, only: ['redis'], small: true });

    const after = await connectRedis({ url, prefix: 'restart' }, silentTelemetry);
    expect(await after.claim(SHARD, 6)).toEqual({ status: 'stale', epoch: 7 });
    const result = await after.scan(SHARD, { epoch: 7, expectedHorizonMs: 0, fromMs: 0, horizonMs: END });
    if (result.status !== 'ok') throw new Error(JSON.stringify(result));
    const byNumber = (a: { number: number }, b: { number: number }): number => a.number - b.number;
    expect(result.due.map((one) => ({ ...one, record: Uint8Array.from(one.record) })).sort(byNumber)).toEqual(
      [...edge, ...crowd]
        .map(({ number, version, score, record }) => ({ number, memberVersion: version & 0xffff, score, record }))
        .sort(byNumber),
    );
    const scores = result.due.map((one) => one.score);
    expect(scores).toEqual([...scores].sort((a, b) => a - b));

    // The full version decides, though its 16 bits are those of another one.
    const wrapped = edge.find((one) => one.version === 65_536)!;
    const { number, version } = wrapped;
    expect(await after.writeBack(SHARD, 7, [{ number, version: 0, score: 0 }])).toMatchObject({ missing: [0] });
    expect(await after.writeBack(SHARD, 7, [{ number, version, score: 0 }])).toMatchObject({ missing: [] });
    expect(await after.finished(SHARD, 10)).toEqual([{ number, version }]);
    expect(await after.count(SHARD)).toEqual({ members: edge.length + crowd.length, finished: 1 });
    await after.close();
  });

  test('numbers, versions and scores that cannot be held exactly are refused before anything is sent', async () => {
    const store = await connectRedis({ url, prefix: 'refused' }, silentTelemetry);
    const good = { number: 1, version: 1, score: 5, record: binary(0) };
    const wrong = [
      { number: 2 ** 36 },
      { number: 2 ** 50 },
      { number: 2 ** 53 },
      { number: -1 },
      { number: 1.5 },
      { version: -1 },
      { version: 2 ** 53 },
      { score: 2 ** 53 },
      { score: -1 },
      { score: 1.5 },
      { score: Number.NaN },
    ];
    for (const fields of wrong) {
      await expect(store.add(1, [good, { ...good, number: 2, ...fields }])).rejects.toThrow(RangeError);
    }
    expect(await store.count(1)).toEqual({ members: 0, finished: 0 });
    await store.close();
  });

  test('large records go in pieces, and the same job twice in one call stays in order', async () => {
    const store = await connectRedis({ url, prefix: 'pieces' }, silentTelemetry);
    await store.reset(1, 1, 1);
    await store.scan(1, { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: 0, build: 1 });
    const large = new Uint8Array(256 * 1024).fill(7);
    const changes = Array.from({ length: 40 }, (_, i) => ({
      number: i % 20,
      version: 1 + i,
      score: 10 + i,
      record: large,
    }));
    expect(await store.add(1, changes)).toEqual(changes.map(() => ({ outcome: 'applied', reachesOwner: false })));
    const result = await store.scan(1, { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: 1_000 });
    if (result.status !== 'ok') throw new Error(JSON.stringify(result));
    expect(result.due.map((one) => one.score)).toEqual(Array.from({ length: 20 }, (_, i) => 30 + i));
    expect(result.due.every((one) => Buffer.compare(one.record, large) === 0)).toBe(true);
    await store.drop(1);
    await store.close();
  });
});
