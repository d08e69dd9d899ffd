import { expect, test } from 'vitest';
import type { RestoredJob } from '../../src/ports/rebuild-store.ts';
import { applied, begun, bytes, change, type OpenedTriggers, scanned } from './trigger-store.contract.ts';

const restored = (number: number, version: number, score: number | null): RestoredJob => {
  return { number, version, score, record: bytes(`${number}@${version} restored`) };
};
const same = (reachesOwner: boolean) => ({ outcome: 'same' as const, reachesOwner });

/** Every statement of `src/ports/rebuild-store.ts` as a test. */
export function rebuildStatements(opened: OpenedTriggers): void {
  test('a shard that is new or dropped is not whole: it is not scanned, and every change reaches the owner', async () => {
    const { store } = opened();
    await store.claim(7, 1);
    const request = { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: 500 };
    expect(await store.scan(7, request)).toEqual({ status: 'not-whole' });
    expect(await store.add(7, [change(1, 1, 900_000)])).toEqual([applied(true)]);
    await begun(store, 7, 1);
    expect(await store.add(7, [change(1, 1, 900_000)])).toEqual([applied(false)]);
    await store.drop(7);
    expect(await store.scan(7, request)).toEqual({ status: 'not-whole' });
    expect(await store.add(7, [change(1, 2, null)])).toEqual([applied(true)]);
    // The answer of the first time stays.
    expect(await store.add(7, [change(1, 2, null)])).toEqual([same(true)]);
  });

  test('a rebuild: reset empties, restore fills, the scan that names it makes the shard whole', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 500), change(2, 3, 600), change(3, 1, null, null)]);
    await scanned(store, 7, 1, 0, 0, 1_000);
    expect(await store.reset(7, 2, 77)).toEqual({ status: 'ok' });
    expect(await store.count(7)).toEqual({ members: 0, finished: 0 });
    expect(await store.add(7, [change(4, 1, 900_000), change(2, 4, 800_000)])).toEqual([applied(true), applied(true)]);
    const jobs = [restored(1, 1, 500), restored(2, 3, 600), restored(5, 1, null), restored(6, 9, 2_000)];
    expect(await store.restore(7, 2, jobs)).toEqual([
      applied(true),
      { outcome: 'older', reachesOwner: false },
      applied(true),
      applied(true),
    ]);
    const request = { epoch: 2, expectedHorizonMs: 0, fromMs: 0, horizonMs: 1_500 };
    expect(await store.scan(7, request)).toEqual({ status: 'not-whole' });
    expect(await store.scan(7, { ...request, build: 76 })).toEqual({ status: 'not-whole' });
    expect(await store.scan(7, { ...request, build: 77 })).toMatchObject({ status: 'ok', due: [{ number: 1 }] });
    const claimed = { status: 'ok', horizonMs: 1_500, formerEpoch: 2, whole: true };
    expect(await store.claim(7, 2)).toMatchObject(claimed);
    expect((await scanned(store, 7, 2, 1_500, 1_500, 900_000)).map((one) => one.number)).toEqual([6, 2, 4]);
    expect(await store.count(7)).toEqual({ members: 4, finished: 0 });
    // From here on H decides again.
    expect(await store.add(7, [change(8, 1, 900_001)])).toEqual([applied(false)]);
  });

  test('a version that was restored and is added later reaches the owner: who adds it knows of no restoring', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    expect(await store.restore(7, 1, [restored(1, 2, 900_000)])).toEqual([applied(false)]);
    expect(await store.add(7, [change(1, 2, 900_000)])).toEqual([same(true)]);
    expect(await store.add(7, [change(1, 3, 900_000)])).toEqual([applied(false)]);
  });

  test('restore of the version that is there adds or takes away what differs, and leaves a score alone', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 500), change(2, 1, null), change(3, 1, 700)]);
    expect(await store.restore(7, 1, [restored(1, 1, 400), restored(2, 1, 800), restored(3, 1, null)])).toEqual([
      same(false),
      applied(false),
      applied(false),
    ]);
    expect(await scanned(store, 7, 1, 0, 0, 1_000)).toMatchObject([
      { number: 1, score: 500, record: '1@1' },
      { number: 2, score: 800, record: '2@1 restored' },
    ]);
    expect(await store.restore(7, 1, [restored(4, 1, 1_000), restored(5, 1, 1_001)])).toEqual([
      applied(true),
      applied(false),
    ]);
  });

  test('an older epoch neither resets nor restores', async () => {
    const { store } = opened();
    await begun(store, 7, 3);
    await store.add(7, [change(1, 1, 500)]);
    const stale = { status: 'stale', epoch: 3 };
    expect(await store.reset(7, 2, 1)).toEqual(stale);
    expect(await store.restore(7, 2, [restored(1, 2, 600)])).toEqual(stale);
    expect(await scanned(store, 7, 3, 0, 0, 1_000)).toMatchObject([{ score: 500 }]);
  });

  test('compare names what is missing, older, or has a member where none is to be; newer versions are well', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 3, 500), change(2, 3, null), change(3, 65_537, 700), change(4, 2, null, null)]);
    const job = (number: number, version: number, member: boolean) => ({ number, version, member });
    expect(await store.compare(7, [])).toEqual([]);
    expect(
      await store.compare(7, [
        job(1, 3, true),
        job(1, 2, false),
        job(1, 4, true),
        job(1, 3, false),
        job(2, 3, false),
        job(2, 3, true),
        job(3, 1, true),
        job(3, 65_537, true),
        job(4, 1, true),
        job(9, 1, true),
      ]),
    ).toEqual([2, 3, 5, 9]);
    const many = Array.from({ length: 2_500 }, (_, i) => job(i, 1, true));
    expect(await store.compare(7, many)).toHaveLength(2_500 - 4);
  });

  test('thousands are restored, and a large record goes in a piece of its own', async () => {
    const { store } = opened();
    await store.reset(7, 1, 5);
    const jobs = Array.from({ length: 3_000 }, (_, i) => restored(i, i + 1, 1_000 + i));
    jobs.push({ number: 5_000, version: 1, score: 5_000, record: new Uint8Array(300_000).fill(7) });
    expect(await store.restore(7, 1, jobs)).toHaveLength(3_001);
    const request = { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: 9_000, build: 5 };
    const result = await store.scan(7, request);
    if (result.status !== 'ok') throw new Error(JSON.stringify(result));
    expect(result.due.map((one) => one.number)).toEqual(jobs.map((one) => one.number));
    expect(result.due.at(-1)!.record).toHaveLength(300_000);
  });

  test('connections is a number that only rises', () => {
    expect(opened().store.connections()).toBeGreaterThan(0);
  });
}
