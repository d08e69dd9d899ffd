import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LIMITS } from '../../src/core/limits.ts';
import type { OperationCount, OperationStore } from '../../src/ports/operation-store.ts';
import { reopened, type StoreOpening } from './opening.ts';
import { sampleOperation } from './samples.ts';

const batch = (fields: Partial<OperationCount> = {}): OperationCount => ({
  cluster: 'team',
  key: 'op',
  partition: 2,
  fromOffset: -1,
  toOffset: 9,
  counts: {},
  errors: [],
  ...fields,
});

function uploadStatements(opened: () => StoreOpening<OperationStore>): void {
  test('an operation is started once; a repeat answers the stored one', async () => {
    const { store } = opened();
    expect(await store.get('team', 'op')).toBeNull();
    const first = sampleOperation('op');
    expect(await store.start(first)).toEqual({ operation: first, started: true });
    await store.received('team', 'op', 5, 'h5');
    expect(await store.start(sampleOperation('op', { startedMs: 9 }))).toEqual({
      operation: { ...first, lines: 5, hash: 'h5' },
      started: false,
    });
    expect((await store.start(sampleOperation('op', { cluster: 'other' }))).started).toBe(true);
    expect(await (await reopened(opened())).get('team', 'op')).toEqual({ ...first, lines: 5, hash: 'h5' });
  });

  test('of several starts at once one starts it', async () => {
    const { store } = opened();
    const starts = await Promise.all(
      [1, 2, 3, 4].map((startedMs) => store.start(sampleOperation('op', { startedMs }))),
    );
    expect(starts.filter((one) => one.started)).toHaveLength(1);
    expect(new Set(starts.map((one) => one.operation.startedMs)).size).toBe(1);
  });

  test('received goes only forward', async () => {
    const { store } = opened();
    await store.start(sampleOperation('op'));
    await store.received('team', 'op', 100, 'h100');
    await store.received('team', 'op', 50, 'h50');
    expect(await store.get('team', 'op')).toMatchObject({ state: 'receiving', lines: 100, hash: 'h100' });
    await store.received('team', 'op', 150, 'h150');
    expect(await store.get('team', 'op')).toMatchObject({ lines: 150, hash: 'h150', acceptedMs: null });
    await store.received('team', 'nothing', 1, 'h');
    expect(await store.get('team', 'nothing')).toBeNull();
  });

  test('accepted notes the end of the upload once; nothing moves it any more', async () => {
    const { store } = opened();
    await store.start(sampleOperation('op'));
    await store.received('team', 'op', 10, 'h10');
    await store.accepted('team', 'op', 12, 'h12');
    const accepted = (await store.get('team', 'op'))!;
    expect(accepted).toMatchObject({ state: 'accepted', lines: 12, hash: 'h12' });
    expect(accepted.acceptedMs).toBeTypeOf('number');
    await store.accepted('team', 'op', 12, 'h12');
    await store.received('team', 'op', 500, 'h500');
    await store.received('team', 'op', 5, 'h5');
    expect(await store.get('team', 'op')).toEqual(accepted);
  });
}

function countStatements(opened: () => StoreOpening<OperationStore>): void {
  test('results are added once per range of offsets, partition by partition', async () => {
    const { store } = opened();
    await store.start(sampleOperation('op'));
    expect(await store.count(batch({ counts: { created: 3, failed: 1 } }))).toBe(true);
    expect(await store.count(batch({ counts: { created: 3, failed: 1 } }))).toBe(false);
    expect(await store.count(batch({ fromOffset: 8, toOffset: 20, counts: { created: 9 } }))).toBe(false);
    expect(await store.count(batch({ fromOffset: 10, toOffset: 20, counts: { created: 9 } }))).toBe(false);
    expect(await store.count(batch({ fromOffset: 9, toOffset: 20, counts: { updated: 2 } }))).toBe(true);
    expect(await store.count(batch({ partition: 0, toOffset: 4, counts: { unchanged: 5, created: 1 } }))).toBe(true);
    expect(await store.count(batch({ key: 'nothing' }))).toBe(false);
    expect(await (await reopened(opened())).get('team', 'op')).toMatchObject({
      counts: { created: 4, updated: 2, unchanged: 5, failed: 1 },
      counted: { 0: 4, 2: 20 },
    });
  });

  test('of several counts of the same range one counts', async () => {
    const { store } = opened();
    await store.start(sampleOperation('op'));
    const counts = await Promise.all([1, 2, 3, 4].map(() => store.count(batch({ counts: { created: 1 } }))));
    expect(counts.filter(Boolean)).toHaveLength(1);
    expect((await store.get('team', 'op'))!.counts.created).toBe(1);
  });

  test('errors are kept up to the limit and counted beyond', async () => {
    const { store } = opened();
    await store.start(sampleOperation('op'));
    const errors = Array.from({ length: LIMITS.operationErrors - 1 }, (_, i) => ({
      line: i + 1,
      jobKey: `job-${i}`,
      code: 'schedule-invalid',
      detail: 'not readable',
      field: 'schedule.expression',
    }));
    await store.count(batch({ counts: { failed: errors.length }, errors }));
    const more = [5_001, 5_002, 5_003].map((line) => ({ line, code: 'job-exists', detail: 'exists' }));
    await store.count(batch({ fromOffset: 9, toOffset: 20, counts: { failed: 3 }, errors: more }));
    const stored = (await store.get('team', 'op'))!;
    expect(stored.errors).toEqual([...errors, more[0]]);
    expect(stored.counts.failed).toBe(LIMITS.operationErrors + 2);
  });

  test('list: newest first, of one cluster, at most so many', async () => {
    const { store } = opened();
    for (const [i, key] of ['b', 'd', 'a', 'c'].entries()) {
      await store.start(sampleOperation(key, { startedMs: 1_000 + i }));
    }
    await store.start(sampleOperation('x', { cluster: 'other', startedMs: 9_000 }));
    expect((await store.list('team', 3)).map((one) => one.key)).toEqual(['c', 'a', 'd']);
    expect((await store.list('team', 100)).map((one) => one.key)).toEqual(['c', 'a', 'd', 'b']);
    expect(await store.list('nobody', 3)).toEqual([]);
  });

  test('sweep removes what ended before a time: accepted, every line counted', async () => {
    const { store } = opened();
    for (const key of ['done-1', 'done-2', 'uncounted', 'receiving']) await store.start(sampleOperation(key));
    for (const key of ['done-1', 'done-2']) {
      await store.count(batch({ key, counts: { created: 2, failed: 1 } }));
      await store.accepted('team', key, 3, 'h3');
    }
    await store.accepted('team', 'uncounted', 3, 'h3');
    await store.received('team', 'receiving', 3, 'h3');
    const acceptedMs = Math.max(
      ...(await Promise.all(['done-1', 'done-2'].map(async (key) => (await store.get('team', key))!.acceptedMs!))),
    );
    expect(await store.sweep(acceptedMs - 3_600_000, 10)).toBe(0);
    expect(await store.sweep(acceptedMs + 1, 1)).toBe(1);
    expect(await store.sweep(acceptedMs + 1, 10)).toBe(1);
    expect((await store.list('team', 10)).map((one) => one.key).sort()).toEqual(['receiving', 'uncounted']);
  });
}

/** Every statement of `src/ports/operation-store.ts` as a test. */
export function operationStoreContract(name: string, open: () => Promise<StoreOpening<OperationStore>>): void {
  describe(`operation store: ${name}`, () => {
    let opening: StoreOpening<OperationStore>;
    beforeEach(async () => {
      opening = await open();
    });
    afterEach(async () => {
      await opening?.close();
    });
    uploadStatements(() => opening);
    countStatements(() => opening);
  });
}
