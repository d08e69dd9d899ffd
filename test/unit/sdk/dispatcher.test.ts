import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ConsumerOptions, TriggerHandler } from '../../../src/sdk/consumer.ts';
import type { Claim, Deduplicator } from '../../../src/sdk/deduplicator.ts';
import { Dispatcher } from '../../../src/sdk/dispatcher.ts';
import { PartitionProgress } from '../../../src/sdk/progress.ts';
import { triggerContent } from '../../../src/sdk/trigger.ts';

const record = (offset: number, key: string, bytes = 1) => ({
  topic: 't',
  partition: 0,
  offset,
  key,
  value: new Uint8Array(bytes),
  headers: { id: `1-${offset}-1000` },
});

/** Many turns of the event loop: whatever could happen without an event from outside has happened. */
const settled = async () => {
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
};

function dispatcher(handler: TriggerHandler, options: Partial<ConsumerOptions> = {}) {
  const failures: unknown[] = [];
  const one = new Dispatcher(
    () => handler,
    { group: 'g', ...options },
    () => {},
    (error) => failures.push(error),
  );
  return { one, failures };
}

describe('progress of a partition', () => {
  test('next is the first record that is not settled, whatever the order of settling', () => {
    const offsets = fc
      .uniqueArray(fc.nat(1_000), { minLength: 1, maxLength: 60 })
      .map((list) => list.sort((a, b) => a - b));
    fc.assert(
      fc.property(
        offsets.chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: 0 }))),
        ([taken, order]) => {
          const progress = new PartitionProgress('t', 0, taken[0]!);
          for (const offset of taken) expect(progress.take(offset)).toBe(true);
          expect(progress.take(taken[0]!)).toBe(false);
          const open = new Set(taken);
          for (const offset of order) {
            progress.settle(offset);
            open.delete(offset);
            const first = taken.find((one) => open.has(one));
            expect(progress.next).toBe(first ?? taken.at(-1)! + 1);
          }
          const next = progress.toCommit();
          if (next !== null) progress.stored(next);
          expect(progress.toCommit()).toBeNull();
        },
      ),
    );
  });

  test('control records at the end of the log count as done', () => {
    const progress = new PartitionProgress('t', 0, 5);
    progress.take(5);
    progress.reached(7);
    expect(progress.next).toBe(5);
    progress.settle(5);
    expect(progress.next).toBe(7);
    expect(progress.take(6)).toBe(false);
  });
});

describe('dispatcher', () => {
  test('per key in order, at most `concurrency` at once, each once: any mix of keys', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1, maxLength: 60 }),
        fc.integer({ min: 1, max: 5 }),
        async (keys, concurrency) => {
          const log: string[] = [];
          let now = 0;
          let most = 0;
          const busy = new Set<string>();
          const { one, failures } = dispatcher(
            async ({ key, offset }) => {
              if (busy.has(key)) log.push('two of one key');
              busy.add(key);
              now += 1;
              most = Math.max(most, now);
              for (let turn = 0; turn < offset % 3; turn++) await Promise.resolve();
              log.push(`${key} ${offset}`);
              busy.delete(key);
              now -= 1;
            },
            { concurrency },
          );
          const progress = new PartitionProgress('t', 0);
          for (const [offset, key] of keys.entries()) await one.add(progress, record(offset, key));
          while (progress.pending > 0) await new Promise(setImmediate);
          for (const key of new Set(keys)) {
            const expected = [...keys.entries()]
              .filter(([, other]) => other === key)
              .map(([offset]) => `${key} ${offset}`);
            expect(log.filter((line) => line.startsWith(`${key} `))).toEqual(expected);
          }
          expect(log).toHaveLength(keys.length);
          expect(most).toBeLessThanOrEqual(concurrency);
          expect(failures).toEqual([]);
          expect(progress.next).toBe(keys.length);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('a slow job holds up itself only', async () => {
    const slow = Promise.withResolvers<void>();
    const done: string[] = [];
    const { one } = dispatcher(
      async ({ key }) => {
        if (key === 'slow') await slow.promise;
        done.push(key);
      },
      { concurrency: 2 },
    );
    const progress = new PartitionProgress('t', 0);
    for (const [offset, key] of ['slow', 'slow', 'slow', 'a', 'b', 'c'].entries())
      await one.add(progress, record(offset, key));
    await settled();
    expect(done).toEqual(['a', 'b', 'c']);
    expect(progress.next).toBe(0);
    slow.resolve();
    await settled();
    expect(progress.next).toBe(6);
  });

  test('what waits is bounded by number and by bytes', async () => {
    for (const limit of [{ maxWaiting: 3 }, { maxWaitingBytes: 30 }]) {
      const gate = Promise.withResolvers<void>();
      const { one } = dispatcher(() => gate.promise, { concurrency: 1, ...limit });
      const progress = new PartitionProgress('t', 0);
      let added = 0;
      const adding = (async () => {
        for (let offset = 0; offset < 10; offset++) {
          await one.add(progress, record(offset, 'k', 10));
          added += 1;
        }
      })();
      await settled();
      expect(added).toBe(3);
      gate.resolve();
      await adding;
    }
    expect(() => dispatcher(async () => {}, { concurrency: 0 })).toThrow(RangeError);
  });

  test('drain ends waits at once, begins nothing more, and tells what still runs', async () => {
    const gate = Promise.withResolvers<void>();
    const begun: number[] = [];
    const { one } = dispatcher(
      async ({ offset }) => {
        begun.push(offset);
        if (offset === 0) throw new Error('again, in an hour');
        await gate.promise;
      },
      { concurrency: 2, retry: { firstMs: 3_600_000, maxMs: 3_600_000 } },
    );
    const progress = new PartitionProgress('t', 0);
    for (const [offset, key] of ['fails', 'runs', 'runs', 'more'].entries())
      await one.add(progress, record(offset, key));
    await settled();
    expect(await one.drain([progress], 1)).toBe(false);
    expect(one.busy([progress])).toBe(false);
    const drained = one.drain([progress], 3_600_000);
    gate.resolve();
    expect(await drained).toBe(true);
    expect(begun).toEqual([0, 1]);
    expect(await one.add(progress, record(9, 'late'))).toBe(false);
    expect(progress.next).toBe(0);
  });

  test('a claim that somebody holds is asked for again; its job waits, and others go on', async () => {
    const claims: string[] = [];
    let answer: Claim = 'held';
    const asked = Promise.withResolvers<void>();
    const deduplicator: Deduplicator = {
      async claim(id) {
        claims.push(id);
        if (claims.filter((one) => one === '1-0-1000').length === 2) asked.resolve();
        return id === '1-0-1000' ? answer : 'claimed';
      },
      async confirm() {},
      async release() {},
    };
    const done: number[] = [];
    const { one } = dispatcher(
      async ({ offset }) => {
        done.push(offset);
      },
      { deduplicator },
    );
    const progress = new PartitionProgress('t', 0);
    for (const [offset, key] of ['a', 'a', 'b'].entries()) await one.add(progress, record(offset, key));
    await asked.promise;
    expect(done).toEqual([2]);
    answer = 'done';
    while (progress.pending > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(done).toEqual([2, 1]);
  });

  test('claim, handle, confirm; a failed attempt lets the claim go; a failed confirmation is told', async () => {
    const calls: string[] = [];
    const deduplicator: Deduplicator = {
      async claim() {
        calls.push('claim');
        return 'claimed';
      },
      async confirm() {
        calls.push('confirm');
        throw new Error('away');
      },
      async release() {
        calls.push('release');
      },
    };
    let attempts = 0;
    const { one, failures } = dispatcher(
      async () => {
        calls.push('handle');
        attempts += 1;
        if (attempts === 1) throw new Error('once');
      },
      { deduplicator, retry: { firstMs: 1 }, onEvent: ({ kind }) => calls.push(kind) },
    );
    const progress = new PartitionProgress('t', 0);
    await one.add(progress, record(0, 'a'));
    while (progress.pending > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    const first = ['claim', 'handle', 'attempt-failed', 'release'];
    expect(calls).toEqual([...first, 'claim', 'handle', 'confirm', 'confirm-failed']);
    expect(failures).toEqual([]);
  });

  test('manual commit: only what was committed is settled, once', async () => {
    const commits: (() => Promise<void>)[] = [];
    const { one } = dispatcher(
      async (trigger) => {
        commits.push(() => trigger.commit());
      },
      { commit: 'manual' },
    );
    const progress = new PartitionProgress('t', 0);
    for (let offset = 0; offset < 3; offset++) await one.add(progress, record(offset, 'a'));
    await settled();
    expect(commits).toHaveLength(3);
    await commits[1]!();
    await commits[1]!();
    expect(progress.next).toBe(0);
    const drained = one.drain([progress], 3_600_000);
    await commits[0]!();
    expect(progress.next).toBe(2);
    await commits[2]!();
    expect(await drained).toBe(true);
    expect(progress.next).toBe(3);
  });
});

describe('a record as a trigger', () => {
  test('both envelopes, runs by hand, and what is none', () => {
    const full = {
      ce_id: '3-7-1796047310555-fr1-2',
      ce_cluster: 'c',
      ce_effectivetime: '2026-11-30T14:01:51.000Z',
      ce_jobversion: '4',
    };
    expect(triggerContent({ ...record(0, 'k'), headers: full })).toEqual({
      id: full.ce_id,
      key: 'k',
      cluster: 'c',
      nominalMs: 1_796_047_310_555,
      effectiveMs: Date.parse(full.ce_effectivetime),
      version: 4,
    });
    const compact = { ...record(0, 'k'), topic: 'carillon.triggers.billing', headers: { id: '3-7-5' } };
    expect(triggerContent(compact)).toEqual({ id: '3-7-5', key: 'k', cluster: 'billing', nominalMs: 5 });
    for (const headers of [{}, { id: '' }, { id: '3-7' }, { id: '3-7-x' }, { id: '3-7-5-g' }]) {
      expect(triggerContent({ ...record(0, 'k'), headers: { ...headers } as Record<string, string> })).toBeNull();
    }
  });
});
