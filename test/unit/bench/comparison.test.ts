import { describe, expect, it } from 'vitest';
import { differences, sameLoad } from '../../../bench/compare.ts';
import { Histogram } from '../../../bench/judge/histogram.ts';
import { growthOf } from '../../../bench/names/register.ts';
import { stepsOf } from '../../../bench/names/saturation.ts';
import { median } from '../../../bench/names/scale.ts';
import { readOptions } from '../../../bench/options.ts';
import { machine } from '../../../bench/report/machine.ts';
import { picture } from '../../../bench/report/picture.ts';
import type { Result } from '../../../bench/report/result.ts';

const result = (own: Partial<Result> = {}): Result => ({
  name: 'sustained',
  config: readOptions(['sustained']).over({}),
  machine: machine(),
  fired_per_s: 1_000_000,
  ratio_to_raw: 0.4,
  lost: 0,
  lateness_ms: { p50: 10, p99: 60, p999: 80, max: 90 },
  cpu_us_per_trigger: { worker: 0.6 },
  ...own,
});
const worse = (now: Partial<Result>): string[] =>
  differences(result(), result(now))
    .filter((one) => one.worse)
    .map(({ path }) => path);

describe('comparison with the baseline', () => {
  it('finds what became worse by more than runs differ', () => {
    expect(worse({})).toEqual([]);
    expect(worse({ lateness_ms: { p50: 12, p99: 85, p999: 100, max: 900 } })).toEqual([]);
    expect(worse({ lateness_ms: { p50: 12, p99: 91, p999: 100, max: 90 } })).toEqual(['lateness_ms.p99']);
    expect(worse({ ratio_to_raw: 0.35, lost: 1, fired_per_s: 800_000, cpu_us_per_trigger: { worker: 0.7 } })).toEqual([
      'fired_per_s',
      'ratio_to_raw',
      'lost',
      'cpu_us_per_trigger.worker',
    ]);
  });

  it('judges another machine by ratios alone', () => {
    const other = { ...machine(), cores: 64 };
    expect(
      worse({ machine: other, fired_per_s: 100_000, lateness_ms: { p50: 99, p99: 999, p999: 999, max: 999 } }),
    ).toEqual([]);
    expect(worse({ machine: other, ratio_to_raw: 0.2 })).toEqual(['ratio_to_raw']);
  });

  it('compares the same load only', () => {
    const options = (args: string[]) => result({ config: readOptions(['sustained', ...args]).over({}) });
    expect(sameLoad(options([]), options(['--seconds', '30', '--json', 'x']))).toBe(true);
    expect(sameLoad(options([]), options(['--jobs', '5']))).toBe(false);
    expect(sameLoad(options([]), options(['--delivery', 'exactly-once']))).toBe(false);
  });
});

describe('single benches', () => {
  it('saturation tells each step by what follows its first seconds', () => {
    const series = Array.from({ length: 12 }, (_, second) => {
      const one = new Histogram();
      // The first second of each step is bad, and the third step is as a whole.
      for (let n = 0; n < 100; n += 1) one.add(second % 4 === 0 || second >= 8 ? 500 : 7);
      return one;
    });
    const lostSeries = new Uint32Array(12);
    lostSeries[11] = 3;
    const steps = stepsOf({ series, lostSeries }, 100_000, 4, 0);
    expect(steps.map(({ offered_per_s, p99, fired, lost }) => [offered_per_s, p99, fired, lost])).toEqual([
      [100_000, 7, 200, 0],
      [200_000, 7, 200, 0],
      [300_000, 500, 200, 3],
    ]);
    expect(stepsOf({ series: series.slice(3), lostSeries: lostSeries.slice(3) }, 100_000, 4, 3)[0]?.offered_per_s).toBe(
      200_000,
    );
  });

  it('scale takes medians, register the growth of memory after its first quarter', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(growthOf([10, 50, 100, 100, 100, 100, 110, 120])).toBe(1.2);
    expect(growthOf([1])).toBe(1);
  });

  it('draws lateness over time and its distribution', () => {
    const svg = picture(result({ name: 'a & b' }), {
      step_ms: 1_000,
      p50: [1, 2],
      p99: [10, 20],
      max: [30, 4_000],
      fired: [5, 5],
      distribution: [
        [1, 9],
        [4_000, 1],
      ],
    });
    expect(svg).toContain('a &amp; b');
    expect(svg.match(/<polyline/g)).toHaveLength(4);
    expect(svg).not.toContain('NaN');
    expect(svg).toContain('10,000 ms');
  });
});
