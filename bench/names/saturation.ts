import { Histogram } from '../judge/histogram.ts';
import type { ReadVerdict } from '../reader/process.ts';
import { round } from '../report/result.ts';
import { gridRun } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** What counts as held, in ms. */
const P99_MOST_MS = 100;
/** Each step's first seconds are those of the change itself. */
const SETTLE_S = 2;
/** A worker that is this far behind will not come back at a rate that only rises, in ms; slots without shards tell of it each 5 s. */
const HOPELESS_MS = 12_000;

interface Step {
  offered_per_s: number;
  p50: number;
  p99: number;
  max: number;
  fired: number;
  lost: number;
}

/** The offer is raised by STEP each SECONDS, up to JOBS, until p99 leaves what is allowed: the last step before is held. */
export const saturation: Bench = {
  what: 'the offer is raised by STEP/s each SECONDS s until p99 > 100 ms',
  defaults: { jobs: 1_500_000, seconds: 10, step: 100_000 },
  async run(asked, log) {
    const steps = Math.max(1, Math.ceil(asked.jobs / asked.step));
    const options = { ...asked, jobs: steps * asked.step, periodMs: 1_000, seconds: steps * asked.seconds, warmUpS: 0 };
    const { result, verdict, grid, fromMs } = await gridRun({
      options,
      log,
      grid: (firstMs) => ({
        jobs: options.jobs,
        periodMs: 1_000,
        anchorMs: firstMs,
        phases: 'even',
        startMs: firstMs,
        groupSize: asked.step,
        groupEveryMs: asked.seconds * 1_000,
      }),
      async endEarly(installation) {
        const { leastProgressMs } = await installation.workerMetrics();
        return Date.now() - leastProgressMs > HOPELESS_MS;
      },
    });
    // A registration that took longer than its lead has eaten into the first steps.
    const skippedS = Math.max(0, (fromMs + 1 - grid.startMs) / 1_000);
    const found = stepsOf(verdict, asked.step, asked.seconds, skippedS);
    const failed = found.findIndex(({ p99, lost }) => p99 > P99_MOST_MS || lost > 0);
    const held = failed === -1 ? found : found.slice(0, failed);
    const heldPerS = held.at(-1)?.offered_per_s ?? 0;
    const raw = result.raw_limit_per_s;
    return {
      ...result,
      name: 'saturation',
      // Beyond the highest rate held, triggers come too late to be any; duplicates and early ones are wrong at any rate.
      lost: held.reduce((sum, step) => sum + step.lost, 0),
      config: asked,
      held_per_s: heldPerS,
      all_held: failed === -1,
      ...(raw !== undefined && { ratio_to_raw: round(heldPerS / raw, 3) }),
      steps: found,
    };
  },
};

export function stepsOf(
  { series, lostSeries }: Pick<ReadVerdict, 'series' | 'lostSeries'>,
  step: number,
  stepS: number,
  skippedS: number,
): Step[] {
  const out: Step[] = [];
  for (let n = 0; ; n += 1) {
    const from = Math.max(0, n * stepS - skippedS);
    const to = (n + 1) * stepS - skippedS;
    if (to > series.length) return out;
    if (to - from <= SETTLE_S) continue;
    const whole = new Histogram();
    for (const second of series.slice(from + SETTLE_S, to)) whole.merge(second);
    const lost = lostSeries.slice(from + SETTLE_S, to).reduce((a, b) => a + b, 0);
    const { p50, p99, max } = whole.summary();
    out.push({ offered_per_s: (n + 1) * step, p50, p99, max, fired: whole.count, lost });
  }
}
