import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { baselines } from '../../../bench/compare.ts';
import { readOptions } from '../../../bench/options.ts';
import { check } from '../../../bench/plan/command.ts';
import { type Costs, costsOf } from '../../../bench/plan/costs.ts';
import { ASSUMED, plan, predictedCores } from '../../../bench/plan/planner.ts';
import { machine } from '../../../bench/report/machine.ts';
import type { Result } from '../../../bench/report/result.ts';

const cost = (value: number) => ({ value, unit: '', source: 'test' });
/** Round figures, so that the plan can be worked out by hand. */
const costs: Costs = {
  workerUs: cost(0.6),
  kafkaUs: cost(0.5),
  redisUs: cost(0.01),
  mongodbUs: cost(0.01),
  envelopeBytes: cost(50),
  rawPerS: cost(4_000_000),
  redisBytes: cost(250),
  mongodbBytes: cost(150),
  registeredPerS: cost(50_000),
};

describe('planner', () => {
  it('works out an installation as by hand', () => {
    const made = plan({ jobs: 10_000_000, rate: 1_000_000, payloadBytes: 50 }, costs);
    expect(made).toMatchObject({
      // 1 M x 0.6 us = 0.6 cores, at 60 % use one thread; two wheels would be needed above that.
      wheels: 1,
      workers: 2,
      slots: 8,
      // 10 M jobs and a fifth of them free, 10,000 in a shard.
      shards: 1_200,
      decides: { shards: 'jobs', brokers: 'copies' },
      brokers: 3,
      partitions: 24,
      // 3 GB of data in nodes of 16 GB.
      redisNodes: 2,
      redisGb: 3,
      mongodbDiskGb: 2,
      // 100 bytes x 3 copies.
      kafkaInMbS: 300,
      kafkaOutMbS: 300,
      beyond: [],
    });
    expect(made.kafkaDiskGb).toBeCloseTo(1_080);
    expect(made.registerMinutes).toBeCloseTo(3.33, 2);
  });

  it('lets each bound decide where it is the greatest', () => {
    expect(plan({ jobs: 1_000, rate: 1_000_000, payloadBytes: 50 }, costs)).toMatchObject({
      shards: 84,
      decides: { shards: 'rate' },
    });
    const large = plan({ jobs: 1_000_000, rate: 1_000_000, payloadBytes: 10_000 }, costs);
    expect(large.decides.brokers).toBe('disk');
    expect(large.brokers).toBe(Math.ceil((1e6 * 10_050 * 3) / (ASSUMED.diskBytes * ASSUMED.usedPart)));
    const slow = plan({ jobs: 1_000, rate: 100_000_000, payloadBytes: 10 }, { ...costs, rawPerS: cost(1_000_000) });
    expect(slow.decides.brokers).toBe('raw');
    const many = plan({ jobs: 1_000_000, rate: 100_000_000, payloadBytes: 10 }, costs);
    expect(many.decides.brokers).toBe('cpu');
    expect(many.wheels).toBe(100);
    expect(many.workers).toBe(26);
    expect(many.slots).toBe(256);
  });

  it('says what is beyond the product', () => {
    expect(plan({ jobs: 1_000, rate: 400_000_000, payloadBytes: 10 }, costs).beyond[0]).toContain('installations');
  });

  it('never plans less for more', () => {
    let before = plan({ jobs: 1_000, rate: 1_000, payloadBytes: 10 }, costs);
    for (const factor of [10, 100, 1_000, 10_000]) {
      const more = plan({ jobs: 1_000 * factor, rate: 1_000 * factor, payloadBytes: 10 }, costs);
      for (const part of ['workers', 'shards', 'brokers', 'redisNodes', 'kafkaDiskGb'] as const) {
        expect(more[part], part).toBeGreaterThanOrEqual(before[part]);
      }
      before = more;
    }
  });
});

const sustained = (jobs: number, worker: number): Result => ({
  name: 'sustained',
  config: readOptions(['sustained', '--jobs', String(jobs)]).over({}),
  machine: machine(),
  fired_per_s: jobs,
  cpu_us_per_trigger: { worker, kafka: 0.5, redis: 0.01, mongodb: 0.01 },
  raw_limit_per_s: 2_500_000,
  bytes_per_trigger: 80,
});

describe('costs', () => {
  it('come from the largest measured run of their kind, and name it', () => {
    const found = costsOf([sustained(500_000, 0.9), sustained(1_000_000, 0.6)], 'compact', 'at-least-once');
    expect(found.workerUs).toMatchObject({
      value: 0.6,
      source: 'baseline, sustained 1000000/s, compact, at-least-once',
    });
    expect(found.envelopeBytes.value).toBe(48);
    expect(found.rawPerS.value).toBe(2_500_000);
  });

  it('come from the kept figures where nothing was measured, each with its source', () => {
    for (const [name, one] of Object.entries(costsOf([], 'cloudevents', 'exactly-once'))) {
      expect(one.value, name).toBeGreaterThan(0);
      expect(one.source.length, name).toBeGreaterThan(10);
    }
    expect(Object.keys(costsOf([], 'compact', 'at-least-once')).sort()).toEqual(Object.keys(costs).sort());
  });

  it('are checked against the other runs', () => {
    const [first] = check([sustained(500_000, 0.9), sustained(1_000_000, 0.6)], costs);
    // 500,000/s used 0.71 cores; at the costs of the larger run it would have been 0.56.
    expect(first).toContain('0.56 cores planned, 0.71 used (-21 %)');
    expect(predictedCores(1_000_000, costs)).toBeCloseTo(1.12);
  });
});

describe('bench/README.md', () => {
  it('has the plans that the baseline makes', () => {
    const text = readFileSync(new URL('../../../bench/README.md', import.meta.url), 'utf8');
    const row = (what: string): string[] => {
      const line = text.split('\n').find((one) => one.startsWith(`| ${what}`)) ?? '';
      return line
        .split('|')
        .slice(2, 5)
        .map((cell) => cell.trim());
    };
    const n = (value: number): string => value.toLocaleString('en-US', { maximumFractionDigits: 0 });
    const costs = costsOf(baselines(), 'compact', 'at-least-once');
    const plans = [1e6, 1e7, 1e8].map((rate) => plan({ jobs: rate * 10, rate, payloadBytes: 100 }, costs));
    const workers = plans.map((one) => `${n(one.workers)} (${n(one.wheels)}, ${n(one.workerCores)})`);
    expect(row('workers')).toEqual(workers);
    expect(row('shards')).toEqual(plans.map(({ shards }) => n(shards)));
    expect(row('partitions')).toEqual(plans.map(({ partitions }) => n(partitions)));
    expect(row('Redis')).toEqual(plans.map(({ redisNodes, redisGb }) => `${n(redisNodes)}, ${n(redisGb)} GB`));
    expect(row('MongoDB')).toEqual(plans.map(({ mongodbDiskGb }) => `${n(mongodbDiskGb)} GB`));
  });
});
