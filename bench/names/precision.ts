import type { Bench } from './bench.ts';
import { sustained } from './sustained.ts';

/** A load that fills nothing: what lateness is left when there is no queue. */
export const precision: Bench = {
  what: '10,000 triggers/s: how near to its time a trigger is',
  defaults: { jobs: 10_000, seconds: 30, rawS: 0 },
  async run(options, log) {
    return { ...(await sustained.run(options, log)), name: 'precision' };
  },
};
