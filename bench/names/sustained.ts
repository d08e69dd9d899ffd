import { gridRun } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** Jobs of one period, their phases spread evenly over it: the same rate in every ms, for as long as is asked. */
export const sustained: Bench = {
  what: 'JOBS jobs each PERIOD ms, evenly spread',
  defaults: {},
  async run(options, log) {
    const { jobs, periodMs } = options;
    const { result } = await gridRun({
      options,
      log,
      grid: (firstMs) => ({ jobs, periodMs, anchorMs: firstMs, phases: 'even', startMs: firstMs }),
    });
    return { ...result, name: 'sustained' };
  },
};
