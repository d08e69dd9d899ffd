import { machine } from '../report/machine.ts';
import { round } from '../report/result.ts';
import type { Bench } from './bench.ts';
import { sustained } from './sustained.ts';

/** One load on one, two and four workers: what a worker more costs. */
export const scaleWorkers: Bench = {
  what: 'the same load on LEVELS workers',
  defaults: { jobs: 100_000, seconds: 30, levels: [1, 2, 4], rawS: 0 },
  async run(options, log) {
    const told: { workers: number; cpu_us_per_trigger: number; p99: number; faults: number }[] = [];
    for (const workers of options.levels) {
      log(`${workers} worker(s)`);
      const result = await sustained.run({ ...options, workers }, log);
      const { lost = 0, duplicated = 0, early = 0, unexpected = 0 } = result;
      const cpu = result.cpu_us_per_trigger?.['worker'] ?? 0;
      told.push({
        workers,
        cpu_us_per_trigger: cpu,
        p99: result.lateness_ms?.p99 ?? 0,
        faults: lost + duplicated + early + unexpected,
      });
    }
    const costs = told.map(({ cpu_us_per_trigger }) => cpu_us_per_trigger);
    return {
      name: 'scale-workers',
      config: options,
      machine: machine(),
      levels: told,
      lost: told.reduce((sum, { faults }) => sum + faults, 0),
      cost_growth: round(Math.max(...costs) / Math.min(...costs), 3),
    };
  },
};
