import { describe, expect, it } from 'vitest';
import { ratesOf } from '../../chaos/load.ts';
import { ONCE_FROM, Tally } from '../../chaos/tally.ts';

/** Job 0 is due each second at 0, job 1 each half second from 100 on. */
const rates = { everyMs: Float64Array.of(1_000, 500), anchorMs: Float64Array.of(0, 100) };
const DIRECT = -1;

/** Everything that is due in [10,000, 12,000), published 5 ms late. */
function perfect(): Tally {
  const tally = new Tally(rates, 10_000, 60_000);
  for (const ms of [10_000, 11_000]) tally.trigger(0, ms, ms + 5, DIRECT, 7);
  for (const ms of [10_100, 10_600, 11_100, 11_600]) tally.trigger(1, ms, ms + 5, DIRECT, 8);
  return tally;
}

const flawless = { expected: 6, lost: 0, duplicatedIds: 0, duplicatedCopies: 0, early: 0, unexpected: 0 };

describe('a tally', () => {
  it('finds nothing where nothing is wrong', () => {
    expect(perfect().verdict(10_000, 12_000)).toEqual({ ...flawless, maxLatenessMs: 5, lastLateMs: 0 });
  });

  it('has spans that meet and do not overlap', () => {
    const tally = perfect();
    const parts = [tally.verdict(10_000, 11_000), tally.verdict(11_000, 12_000)];
    expect(parts.map(({ expected }) => expected)).toEqual([3, 3]);
    expect(tally.verdict(12_000, 13_000)).toMatchObject({ expected: 3, lost: 3 });
  });

  it('counts ids that came again, and their copies', () => {
    const tally = perfect();
    for (let copy = 0; copy < 3; copy += 1) tally.trigger(0, 11_000, 15_000, DIRECT, 7);
    tally.trigger(1, 10_100, 15_000, DIRECT, 8);
    const verdict = tally.verdict(10_000, 12_000);
    // The first copy was in time.
    expect(verdict).toEqual({ ...flawless, duplicatedIds: 2, duplicatedCopies: 4, maxLatenessMs: 5, lastLateMs: 0 });
  });

  it('finds a copy under another id, a time that is none of the job, and a job that is none', () => {
    const tally = perfect();
    tally.trigger(0, 11_000, 15_000, DIRECT, 6);
    tally.trigger(1, 11_101, 11_200, DIRECT, 8);
    tally.trigger(2, 11_000, 11_200, DIRECT, 9);
    expect(tally.verdict(10_000, 12_000)).toMatchObject({
      ...flawless,
      duplicatedIds: 1,
      duplicatedCopies: 1,
      unexpected: 3,
    });
    expect(tally.verdict(10_000, 11_000).unexpected).toBe(0);
  });

  it('knows what was early, how late the latest was, and when it came', () => {
    const tally = new Tally(rates, 10_000, 60_000);
    tally.trigger(0, 10_000, 9_999, DIRECT, 7);
    tally.trigger(0, 11_000, 13_400, DIRECT, 7);
    expect(tally.verdict(10_000, 12_000)).toMatchObject({
      early: 1,
      lost: 4,
      maxLatenessMs: 2_400,
      lastLateMs: 13_500,
    });
  });

  it('counts a transaction when it is committed, at the time of its mark, and never one that is taken back', () => {
    const tally = new Tally(rates, 10_000, 60_000);
    tally.trigger(0, 10_000, 10_001, 41, 7);
    tally.trigger(0, 11_000, 11_001, 42, 7);
    expect(tally.verdict(10_000, 12_000).lost).toBe(6);
    tally.ended(41, false, 10_500);
    tally.ended(42, true, 11_900);
    expect(tally.verdict(10_000, 12_000)).toMatchObject({ lost: 5, maxLatenessMs: 900 });
    tally.trigger(0, 10_000, 12_001, 41, 7);
    tally.ended(41, true, 12_002);
    expect(tally.verdict(10_000, 12_000)).toMatchObject({ lost: 4, duplicatedIds: 0 });
  });

  it('keeps jobs that fire once by their number', () => {
    const tally = perfect();
    tally.trigger(ONCE_FROM + 3, 11_500, 11_510, DIRECT, 7);
    tally.trigger(ONCE_FROM + 3, 11_500, 11_520, DIRECT, 7);
    expect([...tally.once]).toEqual([[ONCE_FROM + 3, { copies: 2, nominalMs: 11_500, atMs: 11_510 }]]);
  });
});

it('a load has the rate that it is asked for, half of its jobs each 30 s, and is the same for the same seed', () => {
  const load = { jobs: 20_000, perSecond: 5_000, seed: 3, anchorMs: 1_000_000 };
  const { everyMs, anchorMs } = ratesOf(load);
  expect(everyMs.filter((ms) => ms === 30_000)).toHaveLength(10_000);
  const perSecond = everyMs.reduce((sum, ms) => sum + 1_000 / ms, 0);
  expect(perSecond / 5_000).toBeCloseTo(1, 1);
  expect(anchorMs.every((ms, job) => ms <= 1_000_000 && ms > 1_000_000 - everyMs[job]!)).toBe(true);
  expect(ratesOf(load)).toEqual({ everyMs, anchorMs });
  expect(ratesOf({ ...load, seed: 4 }).anchorMs).not.toEqual(anchorMs);
});
