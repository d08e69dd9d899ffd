import { gridRun } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** A minute boundary at its worst: all jobs are due at one instant, and at no other within the run. */
export const burst: Bench = {
  what: 'JOBS jobs due at one instant',
  defaults: { periodMs: 3_600_000, seconds: 20, rawS: 10, wheels: 2 },
  async run(options, log) {
    const { jobs, periodMs } = options;
    const { result, verdict, grid } = await gridRun({
      options,
      log,
      // The instant lies 5 s inside the judged span.
      warmUpMs: -5_000,
      stepMs: 100,
      grid: (firstMs) => ({ jobs, periodMs, anchorMs: firstMs, phases: 'one', startMs: firstMs }),
    });
    if (verdict.counts.expected !== jobs)
      throw new Error('registration took longer than its lead: give --lead seconds');
    const { ratio_to_raw: _, ...rest } = result;
    const lastAfterMs = verdict.lastAtMs - grid.anchorMs;
    const perS = Math.round((verdict.counts.fired * 1_000) / Math.max(1, lastAfterMs));
    return { ...rest, name: 'burst', last_after_ms: lastAfterMs, burst_per_s: perS };
  },
};
