import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { TriggerChange, TriggerStore } from '../../src/ports/trigger-store.ts';
import { reopened, type StoreOpening } from './opening.ts';
import { rebuildStatements } from './rebuild-store.contract.ts';
import { triggerSequences } from './trigger-store-sequences.contract.ts';

export type OpenedTriggers = () => StoreOpening<TriggerStore>;

const encoder = new TextEncoder();
export const applied = (reachesOwner: boolean) => ({ outcome: 'applied' as const, reachesOwner });
export const bytes = (text: string): Uint8Array => encoder.encode(text);

/** A change of job `number` to a version; the record says which. */
export function change(
  number: number,
  version: number,
  score: number | null,
  record: string | null = '',
): TriggerChange {
  return { number, version, score, record: record === null ? null : bytes(record || `${number}@${version}`) };
}

/** Makes a shard whole and its owner known, as the first owner of a new shard does; H is 0. */
export async function begun(store: TriggerStore, shard: number, epoch: number): Promise<void> {
  expect(await store.reset(shard, epoch, epoch + 1)).toEqual({ status: 'ok' });
  const request = { epoch, expectedHorizonMs: 0, fromMs: 0, horizonMs: 0, build: epoch + 1 };
  expect(await store.scan(shard, request)).toEqual({ status: 'ok', due: [] });
}

export async function scanned(
  store: TriggerStore,
  shard: number,
  epoch: number,
  fromMs: number,
  h0: number,
  h1: number,
) {
  const result = await store.scan(shard, { epoch, expectedHorizonMs: h0, fromMs, horizonMs: h1 });
  if (result.status !== 'ok') throw new Error(`scan: ${JSON.stringify(result)}`);
  return result.due.map((one) => ({ ...one, record: new TextDecoder().decode(one.record) }));
}

function addStatements(opened: OpenedTriggers): void {
  test('an added member is found by a scan, with its record, and counted', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    expect(await store.add(7, [])).toEqual([]);
    expect(await store.add(7, [change(1, 1, 500), change(2, 65_537, 300)])).toEqual([applied(false), applied(false)]);
    expect(await scanned(store, 7, 1, 0, 0, 1_000)).toEqual([
      { number: 2, memberVersion: 1, score: 300, record: '2@65537' },
      { number: 1, memberVersion: 1, score: 500, record: '1@1' },
    ]);
    expect(await store.count(7)).toEqual({ members: 2, finished: 0 });
    expect(await store.count(8)).toEqual({ members: 0, finished: 0 });
  });

  test('a newer version takes the place of the older member; an older one changes nothing', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 3, 500)]);
    expect(await store.add(7, [change(1, 2, 100), change(1, 5, 700), change(1, 4, 200)])).toEqual([
      { outcome: 'older', reachesOwner: false },
      applied(false),
      { outcome: 'older', reachesOwner: false },
    ]);
    expect(await scanned(store, 7, 1, 0, 0, 1_000)).toEqual([
      { number: 1, memberVersion: 5, score: 700, record: '1@5' },
    ]);
  });

  test('a version of more than 16 bits is compared whole: 65,537 after 1, 65,536 is older than 65,537', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 500)]);
    expect(await store.add(7, [change(1, 65_537, 600)])).toEqual([applied(false)]);
    expect((await store.add(7, [change(1, 65_536, 100)]))[0]!.outcome).toBe('older');
    expect((await store.add(7, [change(1, 1, 100)]))[0]!.outcome).toBe('older');
    expect(await store.count(7)).toEqual({ members: 1, finished: 0 });
    expect(await scanned(store, 7, 1, 0, 0, 1_000)).toMatchObject([{ memberVersion: 1, score: 600 }]);
  });

  test('the same version again changes nothing and answers as the first time, wherever H stands now', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 500)]);
    await scanned(store, 7, 1, 0, 0, 1_000);
    expect(await store.add(7, [change(2, 1, 900)])).toEqual([applied(true)]);
    expect(await store.add(7, [change(1, 1, 400, 'other'), change(2, 1, 5_000)])).toEqual([
      { outcome: 'same', reachesOwner: false },
      { outcome: 'same', reachesOwner: true },
    ]);
    expect(await scanned(store, 7, 1, 0, 1_000, 1_000)).toMatchObject([
      { number: 1, score: 500, record: '1@1' },
      { number: 2, score: 900 },
    ]);
  });

  test('the owner is told when the new score or that of the removed member is at or below H', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 900), change(2, 1, 1_001), change(3, 1, 1_000)]);
    await scanned(store, 7, 1, 0, 0, 1_000);
    const reaches = async (one: TriggerChange): Promise<boolean> => (await store.add(7, [one]))[0]!.reachesOwner;
    expect(await reaches(change(10, 1, 1_000))).toBe(true);
    expect(await reaches(change(11, 1, 1_001))).toBe(false);
    expect(await reaches(change(12, 1, null))).toBe(false);
    expect(await reaches(change(1, 2, 5_000))).toBe(true);
    expect(await reaches(change(1, 3, 6_000))).toBe(false);
    expect(await reaches(change(2, 2, 500))).toBe(true);
    expect(await reaches(change(3, 2, null))).toBe(true);
    expect(await reaches(change(3, 3, null, null))).toBe(false);
  });

  test('the owner is told of what a removed member owes before the cut, also where H has not come so far', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await scanned(store, 7, 1, 0, 0, 1_000);
    const reaches = async (one: TriggerChange): Promise<boolean> => (await store.add(7, [one]))[0]!.reachesOwner;
    expect(await reaches({ ...change(1, 1, 5_000), cutMs: 6_000 })).toBe(false);
    expect(await reaches({ ...change(1, 2, 9_000), cutMs: 4_999 })).toBe(false);
    expect(await reaches({ ...change(1, 3, null), cutMs: 9_000 })).toBe(true);
    expect(await reaches({ ...change(1, 4, 9_000), cutMs: 10_000 })).toBe(false);
  });

  test('without a score there is no member but the record stays; a deleted job leaves a tombstone with its version', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 500), change(2, 1, 600)]);
    await store.add(7, [change(1, 2, null), change(2, 2, null, null)]);
    expect(await store.count(7)).toEqual({ members: 0, finished: 0 });
    expect((await store.add(7, [change(1, 1, 500)]))[0]!.outcome).toBe('older');
    expect((await store.add(7, [change(2, 1, 600)]))[0]!.outcome).toBe('older');
    expect((await store.add(7, [change(2, 2, null, null)]))[0]!.outcome).toBe('same');
    expect((await store.add(7, [change(2, 3, 600)]))[0]!.outcome).toBe('applied');
    expect(await scanned(store, 7, 1, 0, 0, 1_000)).toMatchObject([{ number: 2, memberVersion: 3 }]);
  });

  test('shards do not touch each other', async () => {
    const { store } = opened();
    await begun(store, 1, 1);
    await begun(store, 2, 5);
    await store.add(1, [change(1, 1, 500)]);
    await store.add(2, [change(1, 9, 600)]);
    expect(await scanned(store, 1, 1, 0, 0, 1_000)).toMatchObject([{ score: 500 }]);
    expect(await scanned(store, 2, 5, 0, 0, 700)).toMatchObject([{ score: 600 }]);
    await store.drop(1);
    expect(await store.count(2)).toEqual({ members: 1, finished: 0 });
  });

  test('10,000 members of one shard, numbers up to 36 bits, scores to the millisecond', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    const far = 253_402_300_799_999;
    const changes = Array.from({ length: 10_000 }, (_, i) => change(2 ** 36 - 1 - i, i + 1, far - i));
    for (let i = 0; i < changes.length; i += 2_500) await store.add(7, changes.slice(i, i + 2_500));
    const due = await scanned(store, 7, 1, 0, 0, far);
    expect(due.map((one) => one.score)).toEqual(changes.map((one) => one.score!).reverse());
    expect(due.map((one) => one.number)).toEqual(changes.map((one) => one.number).reverse());
    expect(due[0]).toMatchObject({ memberVersion: 10_000, record: `${2 ** 36 - 10_000}@10000` });
  });
}

function scanStatements(opened: OpenedTriggers): void {
  test('claim raises the epoch, repeats are fine, an older one is stale; H of a new shard is 0', async () => {
    const { store } = opened();
    const claimed = (horizonMs: number, formerEpoch: number, whole: boolean) => {
      return { status: 'ok', horizonMs, formerEpoch, whole, lineage: expect.any(String) };
    };
    expect(await store.claim(7, 2)).toEqual(claimed(0, 0, false));
    expect(await store.claim(7, 2)).toEqual(claimed(0, 2, false));
    await begun(store, 7, 3);
    expect(await store.claim(7, 3)).toEqual(claimed(0, 3, true));
    await scanned(store, 7, 3, 0, 0, 1_000);
    expect(await store.claim(7, 5)).toEqual(claimed(1_000, 3, true));
    expect(await store.claim(7, 4)).toEqual({ status: 'stale', epoch: 5 });
    expect(await store.claim(7, 6)).toEqual(claimed(1_000, 5, true));
  });

  test('an older epoch scans nothing, moves nothing and writes nothing back', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 500)]);
    await store.claim(7, 2);
    const stale = { status: 'stale', epoch: 2 };
    expect(await store.scan(7, { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: 1_000 })).toEqual(stale);
    expect(await store.writeBack(7, 1, [{ number: 1, version: 1, score: 900 }])).toEqual(stale);
    expect(await scanned(store, 7, 2, 0, 0, 1_000)).toMatchObject([{ score: 500 }]);
  });

  test('a scan takes (from, horizon], and only from the horizon that is expected', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(
      7,
      [100, 101, 200, 201].map((score, i) => change(i, 1, score)),
    );
    expect((await scanned(store, 7, 1, 0, 0, 100)).map((one) => one.score)).toEqual([100]);
    const moved = { status: 'horizon-moved', horizonMs: 100 };
    expect(await store.scan(7, { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: 300 })).toEqual(moved);
    expect(await store.scan(7, { epoch: 1, expectedHorizonMs: 101, fromMs: 0, horizonMs: 300 })).toEqual(moved);
    expect((await scanned(store, 7, 1, 100, 100, 200)).map((one) => one.score)).toEqual([101, 200]);
    expect((await scanned(store, 7, 1, 0, 200, 200)).map((one) => one.score)).toEqual([100, 101, 200]);
    expect((await scanned(store, 7, 1, 200, 200, 200)).map((one) => one.score)).toEqual([]);
    expect(await store.claim(7, 1)).toMatchObject({ status: 'ok', horizonMs: 200 });
  });

  test('of several scans from the same horizon one moves it', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    const scans = await Promise.all(
      [100, 200, 300].map((horizonMs) => store.scan(7, { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs })),
    );
    expect(scans.filter((one) => one.status === 'ok')).toHaveLength(1);
  });
}

function endStatements(opened: OpenedTriggers): void {
  test('writeBack sets scores of this very version, names those within H, and names what is missing', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 10), change(2, 1, 20), change(3, 65_537, 30), change(4, 2, 40), change(5, 1, 50)]);
    await store.add(7, [change(5, 2, null), change(6, 1, 60), change(6, 2, null, null)]);
    await scanned(store, 7, 1, 0, 0, 1_000);
    expect(await store.writeBack(7, 1, [])).toEqual({ status: 'ok', within: [], missing: [] });
    const result = await store.writeBack(7, 1, [
      { number: 1, version: 1, score: 1_000 },
      { number: 2, version: 1, score: 1_001 },
      { number: 3, version: 1, score: 999 },
      { number: 4, version: 1, score: 999 },
      { number: 3, version: 65_537, score: 0 },
      { number: 5, version: 1, score: 5_000 },
      { number: 5, version: 2, score: 5_000 },
      { number: 6, version: 2, score: 5_000 },
      { number: 99, version: 1, score: 5_000 },
      { number: 4, version: 2, score: 998 },
    ]);
    expect(result).toEqual({ status: 'ok', within: [0, 9], missing: [2, 3, 5, 6, 7, 8] });
    expect((await scanned(store, 7, 1, 0, 1_000, 2_000)).map((one) => [one.number, one.score])).toEqual([
      [4, 998],
      [1, 1_000],
      [2, 1_001],
    ]);
    expect(await store.count(7)).toEqual({ members: 4, finished: 1 });
  });

  test('writeBack of thousands', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(
      7,
      Array.from({ length: 5_000 }, (_, i) => change(i, 1, 100)),
    );
    const scores = Array.from({ length: 5_000 }, (_, number) => ({ number, version: 1, score: 10_000 + number }));
    expect(await store.writeBack(7, 1, scores)).toEqual({ status: 'ok', within: [], missing: [] });
    expect((await scanned(store, 7, 1, 0, 0, 12_499)).map((one) => one.number)).toEqual(
      Array.from({ length: 2_500 }, (_, i) => i),
    );
  });

  test('finished members are named with their full version and removed in it, with their records', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 65_537, 100), change(2, 1, 200), change(3, 1, 300), change(4, 1, 400)]);
    const done = [
      { number: 1, version: 65_537, score: 0 },
      { number: 2, version: 1, score: 0 },
      { number: 3, version: 1, score: 0 },
    ];
    await store.writeBack(7, 1, done);
    const all = await store.finished(7, 10);
    expect(all.sort((a, b) => a.number - b.number)).toEqual(done.map(({ number, version }) => ({ number, version })));
    expect(await store.finished(7, 2)).toHaveLength(2);
    await store.removeFinished(7, []);
    await store.removeFinished(7, [
      { number: 1, version: 65_537 },
      { number: 2, version: 65_537 },
      { number: 4, version: 1 },
      { number: 99, version: 1 },
    ]);
    // The fourth was finished and recorded without its score being written.
    expect(await store.count(7)).toEqual({ members: 2, finished: 2 });
    expect(await store.add(7, [change(1, 1, 500), change(4, 1, 500)])).toEqual([applied(false), applied(false)]);
    expect((await store.add(7, [change(2, 1, 500)]))[0]!.outcome).toBe('same');
  });

  test('a finished job that gets a new version fires again', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 1, 100)]);
    await store.writeBack(7, 1, [{ number: 1, version: 1, score: 0 }]);
    await store.add(7, [change(1, 2, 900)]);
    expect(await store.finished(7, 10)).toEqual([]);
    await store.removeFinished(7, [{ number: 1, version: 1 }]);
    expect(await scanned(store, 7, 1, 0, 0, 1_000)).toMatchObject([{ memberVersion: 2, score: 900 }]);
  });

  test('sweep forgets tombstones older than a time of the store, and nothing else', async () => {
    const { store } = opened();
    await begun(store, 7, 1);
    await store.add(7, [change(1, 2, null, null), change(2, 2, null, null), change(3, 2, null), change(4, 2, 500)]);
    const nowMs = await store.timeMs();
    expect(Math.abs(nowMs)).toBeGreaterThan(0);
    expect(await store.sweep(7, nowMs - 3_600_000, 10)).toBe(0);
    expect(await store.sweep(7, nowMs + 3_600_000, 1)).toBe(1);
    expect(await store.sweep(7, nowMs + 3_600_000, 10)).toBe(1);
    expect(await store.sweep(7, nowMs + 3_600_000, 10)).toBe(0);
    const again = await store.add(
      7,
      [1, 2, 3, 4].map((number) => change(number, 1, 700)),
    );
    expect(again.map((one) => one.outcome)).toEqual(['applied', 'applied', 'older', 'older']);
  });

  test('a job that came back after its deletion is no tombstone', async () => {
    const { store } = opened();
    await store.add(7, [change(1, 1, null, null)]);
    await store.add(7, [change(1, 2, 500)]);
    expect(await store.sweep(7, (await store.timeMs()) + 3_600_000, 10)).toBe(0);
    expect((await store.add(7, [change(1, 1, 100)]))[0]!.outcome).toBe('older');
  });

  test('drop removes the shard whole: members, records, tombstones, H and epoch', async () => {
    const { store } = opened();
    await begun(store, 7, 9);
    await store.add(7, [change(1, 5, 500), change(2, 5, null, null)]);
    await scanned(store, 7, 9, 0, 0, 1_000);
    await store.drop(7);
    await store.drop(7);
    expect(await store.count(7)).toEqual({ members: 0, finished: 0 });
    expect(await store.claim(7, 1)).toMatchObject({ status: 'ok', horizonMs: 0, formerEpoch: 0, whole: false });
    expect(await store.add(7, [change(1, 1, 500), change(2, 1, 600)])).toEqual([applied(true), applied(true)]);
  });

  test('members, records, H, epoch and tombstones are there after a restart', async () => {
    const { store } = opened();
    await begun(store, 7, 4);
    await store.add(7, [change(1, 1, 500), change(2, 3, null, null)]);
    await scanned(store, 7, 4, 0, 0, 400);
    const again = await reopened(opened());
    expect(await again.claim(7, 3)).toEqual({ status: 'stale', epoch: 4 });
    expect(await again.claim(7, 4)).toMatchObject({ status: 'ok', horizonMs: 400, formerEpoch: 4, whole: true });
    expect((await again.add(7, [change(2, 2, 900)]))[0]!.outcome).toBe('older');
    expect(await scanned(again, 7, 4, 400, 400, 1_000)).toMatchObject([{ number: 1, score: 500, record: '1@1' }]);
  });
}

/** Every statement of `src/ports/trigger-store.ts` as a test, and random sequences against a naive model. */
export function triggerStoreContract(name: string, open: () => Promise<StoreOpening<TriggerStore>>): void {
  describe(`trigger store: ${name}`, () => {
    let opening: StoreOpening<TriggerStore>;
    beforeEach(async () => {
      opening = await open();
    });
    afterEach(async () => {
      await opening?.close();
    });
    addStatements(() => opening);
    scanStatements(() => opening);
    endStatements(() => opening);
    rebuildStatements(() => opening);
    triggerSequences(() => opening);
  });
}
