import { gridRun } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** What the topic keeps, over all partitions: some minutes at full rate, so that the reader may fall behind a little. */
const RETENTION_BYTES = 6 * 1024 ** 3;
/** Seconds of occurrences that are kept until they are judged. */
const WINDOW_S = 150;

/** The long run: counted while it runs, with a disk that is bounded, as in production. */
export const hour: Bench = {
  what: '200,000 triggers/s for an hour, counted while they come',
  defaults: { jobs: 200_000, periodMs: 1_000, seconds: 3_600 },
  async run(options, log) {
    const { jobs, periodMs } = options;
    const { result } = await gridRun({
      options,
      log,
      stepMs: 10_000,
      live: { retentionBytes: RETENTION_BYTES, window: Math.ceil((WINDOW_S * 1_000) / periodMs) },
      grid: (firstMs) => ({ jobs, periodMs, anchorMs: firstMs, phases: 'even', startMs: firstMs }),
    });
    return { ...result, name: 'hour' };
  },
};
