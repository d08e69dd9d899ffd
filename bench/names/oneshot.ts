import { setTimeout as sleep } from 'node:timers/promises';
import { jobCounts } from '../installation/installation.ts';
import { round } from '../report/result.ts';
import { gridRun } from '../run/grid-run.ts';
import type { Bench } from './bench.ts';

/** How long the last one-shots may take to be recorded, in s. */
const RECORD_WAIT_S = 60;

/** One-shots at RATE per second: fired, finished in the trigger store, recorded in the job store. */
export const oneshot: Bench = {
  what: 'RATE one-shots a second, recorded as finished',
  // A little above what is to be shown: the rate of recording is counted, which ends a little after the firing.
  // Each one-shot is new to the wheel, which makes of its record what fires: one thread fell behind at 62,000/s when that took 9.1 us.
  defaults: { rate: 68_000, seconds: 30, rawS: 0, jobs: 0, wheels: 2 },
  async run(asked, log) {
    const spanS = asked.warmUpS + asked.seconds;
    const options = { ...asked, jobs: Math.round(asked.rate * spanS), periodMs: spanS * 1_000 };
    let before = 0;
    const { result } = await gridRun({
      options,
      log,
      grid: (firstMs) => {
        const { jobs, periodMs } = options;
        return { jobs, periodMs, anchorMs: firstMs, phases: 'even', once: true, startMs: firstMs };
      },
      async atStart(installation) {
        before = (await installation.workerMetrics()).finished;
      },
      async afterSpan({ installation, client, fromMs, toMs }) {
        const recorded = async (): Promise<number> => (await installation.workerMetrics()).finished;
        const atEnd = (await recorded()) - before;
        const measuredS = (Date.now() - fromMs) / 1_000;
        while ((await recorded()) < options.jobs && Date.now() < toMs + RECORD_WAIT_S * 1_000) await sleep(100);
        const lagMs = Date.now() - toMs;
        const finished = (await jobCounts(client)).finished;
        return {
          recorded_per_s: round(atEnd / measuredS, 1),
          record_lag_ms: lagMs,
          not_recorded: options.jobs - finished,
        };
      },
    });
    return { ...result, name: 'oneshot' };
  },
};
