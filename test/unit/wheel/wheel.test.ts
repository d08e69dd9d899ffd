import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Wheel } from '../../../src/core/wheel.ts';

/** What a wheel must do, by a sorted array: no code or idea is shared with the wheel. */
class SortedArray {
  private readonly waiting: { entry: number; dueMs: number }[] = [];

  add(entry: number, dueMs: number): void {
    this.waiting.push({ entry, dueMs });
    this.waiting.sort((a, b) => a.dueMs - b.dueMs);
  }
  cancel(entry: number): boolean {
    const at = this.waiting.findIndex((one) => one.entry === entry);
    if (at >= 0) this.waiting.splice(at, 1);
    return at >= 0;
  }
  upTo(nowMs: number): { entry: number; dueMs: number }[] {
    const end = this.waiting.findIndex((one) => one.dueMs > nowMs);
    return this.waiting.splice(0, end < 0 ? this.waiting.length : end);
  }
  get size(): number {
    return this.waiting.length;
  }
  get firstMs(): number {
    return this.waiting[0]?.dueMs ?? Number.POSITIVE_INFINITY;
  }
}

function drain(wheel: Wheel, nowMs: number, room = 3): { entry: number; dueMs: number }[] {
  const out = new Int32Array(room);
  const given: { entry: number; dueMs: number }[] = [];
  for (let n = wheel.advanceTo(nowMs, out); n > 0; n = wheel.advanceTo(nowMs, out)) {
    for (let i = 0; i < n; i += 1) given.push({ entry: out[i]!, dueMs: wheel.timeMs });
  }
  return given;
}

/** Distances ahead over all levels of the wheel: ms, the scan window, minutes, days, centuries. */
const ahead = fc.oneof(
  fc.integer({ min: 1, max: 40 }),
  fc.integer({ min: 1, max: 16_000 }),
  fc.integer({ min: 16_300, max: 33_000 }),
  fc.integer({ min: 1_000_000, max: 1_100_000 }),
  fc.integer({ min: 1, max: 20 * 86_400_000 }),
  fc.integer({ min: 1, max: 4_000_000_000_000 }),
);
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('add' as const), ahead }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), pick: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('move' as const), ahead }) },
);
const start = fc.oneof(fc.constant(0), fc.constant(2 ** 40 - 5), fc.integer({ min: 0, max: 2_000_000_000_000 }));

test('never early, never more than one tick late, each exactly once, cancel wins: as a sorted array', () => {
  fc.assert(
    fc.property(start, fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), (startMs, steps, room) => {
      const wheel = new Wheel(startMs, 2);
      const oracle = new SortedArray();
      let nowMs = startMs;
      let entries = 0;
      for (const one of steps) {
        if (one.kind === 'add') {
          expect(wheel.add(entries, nowMs + one.ahead)).toBe(true);
          oracle.add(entries, nowMs + one.ahead);
          entries += 1;
        } else if (one.kind === 'cancel') {
          const entry = entries === 0 ? 0 : one.pick % entries;
          expect(wheel.cancel(entry)).toBe(oracle.cancel(entry));
          expect(wheel.waits(entry)).toBe(false);
        } else {
          nowMs += one.ahead;
          const byEntry = (a: { entry: number; dueMs: number }, b: { entry: number; dueMs: number }): number =>
            a.dueMs - b.dueMs || a.entry - b.entry;
          const given = drain(wheel, nowMs, room);
          expect(given.map((g) => g.dueMs)).toEqual(given.map((g) => g.dueMs).sort((a, b) => a - b));
          expect(given.sort(byEntry)).toEqual(oracle.upTo(nowMs).sort(byEntry));
          expect(wheel.drainedToMs).toBe(nowMs);
        }
        expect(wheel.size).toBe(oracle.size);
        expect(wheel.nextDueMs()).toBeLessThanOrEqual(oracle.firstMs);
        expect(wheel.nextDueMs() > nowMs || oracle.size === 0).toBe(true);
      }
    }),
    { numRuns: 2_000 },
  );
});

test('driven one tick at a time, every entry comes at its very time', () => {
  fc.assert(
    fc.property(start, fc.array(fc.integer({ min: 1, max: 3_000 }), { maxLength: 30 }), (startMs, aheads) => {
      const wheel = new Wheel(startMs);
      for (const [entry, ms] of aheads.entries()) wheel.add(entry, startMs + ms);
      const seen: number[] = [];
      for (let nowMs = startMs; nowMs <= startMs + 3_000; nowMs += 1) {
        for (const { entry, dueMs } of drain(wheel, nowMs)) {
          expect([dueMs, startMs + aheads[entry]!]).toEqual([nowMs, nowMs]);
          seen.push(entry);
        }
      }
      expect(seen.sort((a, b) => a - b)).toEqual(aheads.map((_, entry) => entry));
    }),
    { numRuns: 100 },
  );
});

test('the example of the header', () => {
  const wheel = new Wheel(1_000);
  const out = new Int32Array(8);
  expect([wheel.add(1, 1_003), wheel.add(2, 20_000)]).toEqual([true, true]);
  expect([wheel.advanceTo(30_000, out), out[0], wheel.timeMs]).toEqual([1, 1, 1_003]);
  expect(wheel.nextDueMs()).toBe(16_384);
  expect([wheel.advanceTo(30_000, out), out[0], wheel.timeMs]).toEqual([1, 2, 20_000]);
  expect([wheel.advanceTo(30_000, out), wheel.timeMs]).toEqual([0, 30_000]);
});

test('what is due already is not hung, also while the bucket of its time is being given', () => {
  const wheel = new Wheel(1_000);
  expect([wheel.add(0, 999), wheel.add(0, 1_000), wheel.waits(0)]).toEqual([false, false, false]);
  for (let entry = 0; entry < 5; entry += 1) wheel.add(entry, 1_010);
  const out = new Int32Array(2);
  expect(wheel.advanceTo(1_020, out)).toBe(2);
  expect([wheel.drainedToMs, wheel.add(9, 1_010)]).toEqual([1_009, false]);
  expect(wheel.cancel(3)).toBe(true);
  expect(drain(wheel, 1_020).map((given) => given.entry)).toEqual([2, 4]);
  expect(wheel.drainedToMs).toBe(1_020);
});

test('a clock that goes back moves nothing', () => {
  const wheel = new Wheel(1_000);
  wheel.add(0, 2_000);
  expect(drain(wheel, 1_500)).toEqual([]);
  expect(drain(wheel, 400)).toEqual([]);
  expect(wheel.timeMs).toBe(1_500);
  expect(drain(wheel, 2_000)).toEqual([{ entry: 0, dueMs: 2_000 }]);
});

test('an entry waits once, and times beyond the range are refused', () => {
  const wheel = new Wheel(0);
  wheel.add(0, 5);
  expect(() => wheel.add(0, 6)).toThrow('waits already');
  expect(() => wheel.add(1, 2 ** 50)).toThrow(RangeError);
  expect(() => new Wheel(-1)).toThrow(RangeError);
});

test('a stall of hours with 200,000 entries drains in order and in bounded portions', () => {
  const wheel = new Wheel(1_700_000_000_000);
  for (let entry = 0; entry < 200_000; entry += 1) wheel.add(entry, 1_700_000_000_001 + ((entry * 7_919) % 7_200_000));
  const given = drain(wheel, 1_700_007_200_000, 5_000);
  expect(given).toHaveLength(200_000);
  for (let i = 1; i < given.length; i += 1) {
    if (given[i]!.dueMs < given[i - 1]!.dueMs) expect.unreachable('out of order');
  }
  expect(new Set(given.map((g) => g.entry)).size).toBe(200_000);
});
