/**
 * The jobs of the suite, as arithmetic that the generator and the reader have each for themselves: all are fixed rates, so the
 * times of one are `anchorMs + n * everyMs`. Nothing here knows `src/`.
 */
import { random } from '../../bench/demo/jobs.ts';

export interface Load {
  jobs: number;
  /** Triggers per second of all jobs together. */
  perSecond: number;
  seed: number;
  /** Anchors lie within a period before this, UTC ms. */
  anchorMs: number;
}

export interface Rates {
  everyMs: Float64Array;
  anchorMs: Float64Array;
}

/** Half of the jobs have this period, which is longer than a worker looks ahead: they go through the trigger store each time. */
export const LONG_MS = 30_000;
const LEAST_MS = 50;
/** The short periods differ, so that no second is like another; the rates of the three make 1 on average. */
const SPREAD = [0.8, 1, 1 / 0.75];

export function ratesOf({ jobs, perSecond, seed, anchorMs }: Load): Rates {
  const next = random(seed);
  const long = Math.floor(jobs / 2);
  const shortMs = ((jobs - long) / Math.max(1, perSecond - (long * 1_000) / LONG_MS)) * 1_000;
  const rates = { everyMs: new Float64Array(jobs), anchorMs: new Float64Array(jobs) };
  for (let job = 0; job < jobs; job += 1) {
    const everyMs = job < long ? LONG_MS : Math.max(LEAST_MS, Math.round(shortMs * SPREAD[job % 3]!));
    rates.everyMs[job] = everyMs;
    rates.anchorMs[job] = anchorMs - Math.floor(next() * everyMs);
  }
  return rates;
}

/** The digits at the end of a key are the job's number, which is all that the reader takes of it. */
export const rateKey = (job: number): string => `rate-${job}`;

export function* rateLines({ everyMs, anchorMs }: Rates): Generator<string> {
  for (let job = 0; job < everyMs.length; job += 1) {
    const anchor = new Date(anchorMs[job]!).toISOString();
    yield `{"key":"${rateKey(job)}","schedule":{"kind":"rate","everyMs":${everyMs[job]},"anchor":"${anchor}"},"payload":${job}}`;
  }
}
