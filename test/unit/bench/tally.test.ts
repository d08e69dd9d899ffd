import { describe, expect, it } from 'vitest';
import { type Grid, phaseOf } from '../../../bench/judge/grid.ts';
import { Tally } from '../../../bench/judge/tally.ts';

const T = 1_790_000_000_000;
const grid: Grid = { jobs: 5, periodMs: 1_000, anchorMs: T, phases: 'even', startMs: T };
/** Three turns are judged, as in a run: from just before a whole second on. */
const span = { fromMs: T + 999, toMs: T + 3_999, stepMs: 1_000 };
const at = (job: number, turn: number, own: Grid = grid): number =>
  own.anchorMs + phaseOf(own, job) + turn * own.periodMs;

/** A tally with every expected trigger of the span but those that `leave` names, each 5 ms late. */
function fed(own: Grid = grid, leave: (job: number, turn: number) => boolean = () => false, window?: number): Tally {
  const tally = new Tally({ grid: own, ...span, ...(window === undefined ? {} : { window }) });
  for (let turn = 0; turn < 6; turn += 1) {
    for (let job = 0; job < own.jobs; job += 1) {
      if (!leave(job, turn)) tally.trigger(job, at(job, turn, own), at(job, turn, own) + 5, -1);
    }
  }
  return tally;
}

describe('tally', () => {
  it('finds nothing where nothing is wrong, and judges the span alone', () => {
    const tally = fed();
    expect(tally.finish()).toMatchObject({
      read: 30,
      expected: 15,
      fired: 15,
      lost: 0,
      duplicated: 0,
      early: 0,
      unexpected: 0,
      disordered: 0,
    });
    expect(tally.lateness.summary()).toEqual({ p50: 5, p99: 5, p999: 5, max: 5 });
    expect(tally.series.map(({ count }) => count)).toEqual([5, 5, 5]);
  });

  it('counts what is missing in the span, not what is missing outside of it', () => {
    expect(fed(grid, (job, turn) => job === 2 && turn !== 1).finish().lost).toBe(2);
    expect(fed(grid, (_, turn) => turn === 0 || turn > 3).finish().lost).toBe(0);
  });

  it('counts every copy beyond the first', () => {
    const tally = fed();
    for (let i = 0; i < 3; i += 1) tally.trigger(1, at(1, 2), at(1, 2) + 9, -1);
    expect(tally.finish()).toMatchObject({ fired: 18, lost: 0, duplicated: 3, disordered: 3 });
  });

  it('counts what the broker had before its time, what no job has, and what came out of order', () => {
    const tally = fed(grid, (job, turn) => turn === 2 && job < 2);
    tally.trigger(0, at(0, 2), at(0, 2) - 1, -1);
    tally.trigger(1, at(1, 2) + 1, at(1, 2) + 9, -1);
    tally.trigger(99, T + 1_500, T + 1_501, -1);
    tally.foreign();
    expect(tally.finish()).toMatchObject({ early: 1, unexpected: 3, lost: 1, disordered: 1 });
  });

  it('holds a transaction until its mark, whose time counts, and drops what was taken back', () => {
    const tally = new Tally({ grid, ...span });
    for (let turn = 1; turn <= 3; turn += 1) {
      for (let job = 0; job < 5; job += 1) {
        // Each first try is aborted; its triggers come again.
        tally.trigger(job, at(job, turn), at(job, turn) + 1, 70);
      }
      tally.ended(70, false, at(0, turn) + 3);
      for (let job = 0; job < 5; job += 1) tally.trigger(job, at(job, turn), at(job, turn) + 1, 70);
      tally.ended(70, true, at(0, turn) + 1_000);
    }
    expect(tally.finish()).toMatchObject({
      fired: 15,
      lost: 0,
      duplicated: 0,
      aborted_triggers: 15,
      aborted_transactions: 3,
    });
    expect(tally.lateness.max).toBe(1_000);
  });

  it('keeps transactions apart, and does not count one without an end', () => {
    const tally = new Tally({ grid, ...span });
    tally.trigger(0, at(0, 1), 0, 1);
    tally.trigger(1, at(1, 1), 0, 2);
    tally.trigger(2, at(2, 1), 0, 1);
    tally.ended(2, true, at(1, 1) + 10);
    tally.ended(3, true, at(1, 1) + 10);
    expect(tally.finish()).toMatchObject({ fired: 1, lost: 14 });
  });

  it('knows jobs that begin later, end, or fire once', () => {
    const grouped: Grid = { ...grid, groupSize: 2, groupEveryMs: 1_000 };
    expect(fed(grouped, (job, turn) => turn < Math.floor(job / 2)).finish()).toMatchObject({ expected: 14, lost: 0 });
    expect(fed(grouped).finish().unexpected).toBe(1);
    const ended: Grid = { ...grid, endMs: T + 1_999 };
    expect(fed(ended, (_, turn) => turn > 1).finish()).toMatchObject({ expected: 5, lost: 0 });
    const once: Grid = { ...grid, anchorMs: T + 1_000, once: true };
    expect(fed(once, (_, turn) => turn > 0).finish()).toMatchObject({ expected: 5, lost: 0, unexpected: 0 });
    expect(fed(once, (_, turn) => turn > 1).finish().unexpected).toBe(5);
  });

  it('passes over jobs of others where the grid has a first key', () => {
    const own: Grid = { ...grid, firstKey: 1_000 };
    const tally = new Tally({ grid: own, ...span });
    for (let turn = 0; turn < 6; turn += 1) {
      for (let job = 0; job < 5; job += 1) tally.trigger(1_000 + job, at(job, turn), at(job, turn), -1);
      tally.trigger(999, at(0, turn), 0, -1);
      tally.trigger(1_005, at(0, turn), 0, -1);
    }
    expect(tally.finish()).toMatchObject({ fired: 15, lost: 0, unexpected: 0, early: 0 });
  });

  it('judges a long run in a ring of turns', () => {
    const tally = new Tally({ grid, fromMs: T - 1, toMs: T + 99_999, stepMs: 10_000, window: 4 });
    for (let turn = 0; turn < 100; turn += 1) {
      for (let job = 0; job < 5; job += 1)
        if (turn !== 50 || job !== 3) tally.trigger(job, at(job, turn), at(job, turn), -1);
      tally.settle(at(0, turn));
    }
    expect(tally.finish()).toMatchObject({ expected: 500, fired: 499, lost: 1, duplicated: 0 });
    const late = new Tally({ grid, fromMs: T - 1, toMs: T + 99_999, stepMs: 10_000, window: 4 });
    expect(() => late.trigger(0, at(0, 4), at(0, 4), -1)).toThrow('newer');
    late.settle(T + 10_000);
    expect(() => late.trigger(0, at(0, 4), at(0, 4), -1)).toThrow('older');
  });

  it('spreads phases evenly over the period, and has them all in one where that is asked', () => {
    const even: Grid = { ...grid, jobs: 10_000 };
    const perMs = new Array<number>(1_000).fill(0);
    for (let job = 0; job < 10_000; job += 1) perMs[phaseOf(even, job)]! += 1;
    expect(Math.min(...perMs)).toBeGreaterThanOrEqual(8);
    expect(Math.max(...perMs)).toBeLessThanOrEqual(12);
    expect(phaseOf({ ...grid, phases: 'one' }, 3)).toBe(0);
  });
});
