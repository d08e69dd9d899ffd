import { carillonError } from '../core/errors.ts';
import { LIMITS } from '../core/limits.ts';
import type { Clock } from '../ports/clock.ts';
import { environmentName, type SettingName } from './settings.ts';

export interface Listening {
  host: string;
  port: number;
  /** The setting that gives the port. */
  setting: SettingName;
}

/** Turns the error of a `listen` into `setup-refused` with the mend; other errors come back as they are. */
export function portRefusal(error: unknown, { host, port, setting }: Listening): unknown {
  const mend = `set ${setting} (${environmentName(setting)})`;
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EADDRINUSE':
      return carillonError(
        'setup-refused',
        `port ${port} on ${host} is taken by another process; ${mend} to a free port, or 0 for any, or end that process`,
      );
    case 'EACCES':
      return carillonError('setup-refused', `port ${port} on ${host} is not allowed to this user; ${mend} above 1023`);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return carillonError('setup-refused', `${host} is no address of this machine; mend the host beside ${setting}`);
    default:
      return error;
  }
}

const SKEW_SAMPLES = 5;

/**
 * Refuses to start when this machine's wall clock differs from a store's by more than `LIMITS.clockSkewMs`. A sample is
 * true to half of its round trip, so the quickest of several counts and its doubt is in favour of the set-up.
 * Example: asked at 1,000, answered 1,900 at 1,100: the store is ahead by 850 +- 50 ms, surely by 800: refused.
 */
export async function checkClockSkew(
  clock: Clock,
  storeName: string,
  storeTimeMs: () => Promise<number>,
): Promise<void> {
  let best = { roundTripMs: Number.POSITIVE_INFINITY, aheadMs: 0 };
  for (let sample = 0; sample < SKEW_SAMPLES; sample++) {
    const askedMs = clock.wallMs();
    const startMs = clock.monotonicMs();
    const storeMs = await storeTimeMs();
    const roundTripMs = clock.monotonicMs() - startMs;
    if (roundTripMs < best.roundTripMs) best = { roundTripMs, aheadMs: storeMs - (askedMs + roundTripMs / 2) };
  }
  if (Math.abs(best.aheadMs) - best.roundTripMs / 2 <= LIMITS.clockSkewMs) return;
  const direction = best.aheadMs > 0 ? 'behind' : 'ahead of';
  throw carillonError(
    'setup-refused',
    `this machine's clock is ${Math.round(Math.abs(best.aheadMs))} ms ${direction} ${storeName}'s, more than ` +
      `${LIMITS.clockSkewMs} ms; synchronise both machines (NTP) and start again`,
  );
}
