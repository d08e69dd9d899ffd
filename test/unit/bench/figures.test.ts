import { describe, expect, it } from 'vitest';
import { Histogram, LINEAR_MS } from '../../../bench/judge/histogram.ts';
import { faultsOf } from '../../../bench/limits.ts';
import { jobKey, payloadText } from '../../../bench/load/job-lines.ts';
import { cpuByKind } from '../../../bench/measure/processes.ts';
import { compareLateness, latenessBetween, parseMetrics } from '../../../bench/measure/worker-metrics.ts';
import { readOptions, UsageError } from '../../../bench/options.ts';
import { machine } from '../../../bench/report/machine.ts';
import { medianOf, type Result } from '../../../bench/report/result.ts';

const result = (own: Partial<Result> = {}): Result => ({
  name: 'sustained',
  config: readOptions(['sustained']).over({}),
  machine: machine(),
  fired_per_s: 1_000_000,
  lost: 0,
  duplicated: 0,
  early: 0,
  lateness_ms: { p50: 5, p99: 50, p999: 80, max: 90 },
  ...own,
});

describe('histogram', () => {
  it('answers nearest ranks, and the maximum beyond its last bucket', () => {
    const histogram = new Histogram();
    for (let ms = 1; ms <= 100; ms += 1) histogram.add(ms);
    expect(histogram.summary()).toEqual({ p50: 50, p99: 99, p999: 100, max: 100 });
    expect(histogram.shareWithin(25)).toBe(0.25);
    histogram.add(-3);
    histogram.add(LINEAR_MS * 3);
    expect(histogram.counts[0]).toBe(1);
    expect(histogram.quantile(1)).toBe(LINEAR_MS * 3);
    expect(new Histogram().summary()).toEqual({ p50: 0, p99: 0, p999: 0, max: 0 });
  });
});

describe('worker metrics', () => {
  const text = (n: number): string =>
    [
      `carillon_trigger_lateness_milliseconds_bucket{le="10",cluster="b",slot="a0"} ${n}`,
      `carillon_trigger_lateness_milliseconds_bucket{le="+Inf",cluster="b",slot="a0"} ${2 * n}`,
      `carillon_progress_t_ms{slot="a0"} ${1_000 + n}`,
      `carillon_triggers_total{result="published",slot="a0"} ${2 * n}`,
      `carillon_triggers_total{result="dropped",slot="a0"} 7`,
    ].join('\n');

  it('adds up all workers and slots', () => {
    const { lateness, leastProgressMs, published } = parseMetrics([text(10), text(30)]);
    expect(lateness).toEqual({ bounds: [10, Number.POSITIVE_INFINITY], within: [40, 80] });
    expect(leastProgressMs).toBe(1_030);
    expect(parseMetrics([text(10), 'carillon_progress_t_ms{slot="a1"} 7']).leastProgressMs).toBe(7);
    expect(published).toBe(80);
  });

  it('compares what the worker and the broker say', () => {
    const own = latenessBetween(parseMetrics([text(10)]).lateness, parseMetrics([text(110)]).lateness);
    expect(own.within).toEqual([100, 200]);
    const broker = new Histogram();
    for (const ms of [5, 6, 7, 20]) broker.add(ms);
    expect(compareLateness(own, broker).difference).toBe(0.25);
  });
});

describe('results', () => {
  it('misses no limit where all holds', () => {
    expect(faultsOf(result())).toEqual([]);
  });

  it('tells each limit that is missed, by the row of its load', () => {
    const paths = faultsOf(
      result({ fired_per_s: 900_000, duplicated: 1, lateness_ms: { p50: 1, p99: 101, p999: 0, max: 1_001 } }),
    );
    expect(paths.map(({ path }) => path)).toEqual(['duplicated', 'fired_per_s', 'lateness_ms.p99', 'lateness_ms.max']);
    const small = readOptions(['sustained', '--jobs', '1000']).over({});
    expect(
      faultsOf(result({ config: small, fired_per_s: 1, lateness_ms: { p50: 1, p99: 999, p999: 0, max: 0 } })),
    ).toEqual([]);
    expect(faultsOf({ ...result(), name: 'burst' })[0]?.told).toContain('there is no last_after_ms');
  });

  it('takes the median of each number, its spread, and the sum of what must be 0', () => {
    const three = [30, 10, 20].map((p99, i) =>
      result({ lateness_ms: { p50: 5, p99, p999: 80, max: 90 + i }, lost: i === 0 ? 2 : 0 }),
    );
    const median = medianOf(three);
    expect(median.lateness_ms).toEqual({ p50: 5, p99: 20, p999: 80, max: 91 });
    expect(median.lost).toBe(2);
    expect(median.spread?.['lateness_ms.p99']).toEqual([10, 30]);
  });
});

describe('load', () => {
  it('makes payloads of the size asked for, which are JSON', () => {
    for (const bytes of [16, 17, 32, 120, 4_000]) {
      const text = payloadText(123, bytes);
      expect(JSON.parse(text)).toMatchObject({ n: 123 });
      if (bytes >= 20) expect(text.length).toBe(bytes);
    }
    expect(jobKey(1_234)).toBe('job-00001234');
  });

  it('sums CPU by kind of process', () => {
    expect(cpuByKind({ 'worker-0': 5, 'worker-1': 6, kafka: 7 })).toEqual({ worker: 11, kafka: 7 });
  });

  it('refuses options that are none', () => {
    expect(() => readOptions(['sustained', '--jobs', 'many'])).toThrow(UsageError);
    expect(() => readOptions(['sustained', '--envelope', 'paper'])).toThrow(UsageError);
    expect(() => readOptions(['sustained', '--speed', '3'])).toThrow(UsageError);
    expect(readOptions(['x', '--levels', '1,2', '--json', 'f']).over({})).toMatchObject({ levels: [1, 2], json: 'f' });
  });
});
