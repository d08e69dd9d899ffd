import { Installation } from '../installation/installation.ts';
import { machine } from '../report/machine.ts';
import { rawLimit } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** The broker alone: what it takes from the product's encoder. */
export const raw: Bench = {
  what: 'the raw produce limit of the broker',
  defaults: { rawS: 15 },
  async run(options, log) {
    const installation = await Installation.servers(options, log);
    try {
      const { per_s, mb_per_s, client_cpu_us } = await rawLimit(installation, options);
      return {
        name: 'raw',
        config: options,
        machine: machine(),
        raw_limit_per_s: per_s,
        raw_mb_per_s: mb_per_s,
        raw_client_cpu_us: client_cpu_us,
      };
    } finally {
      await installation.stop();
    }
  },
};
