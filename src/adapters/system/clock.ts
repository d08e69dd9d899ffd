import { type Clock, sleepBy } from '../../ports/clock.ts';

/** Greatest wait of one Node timer, in ms: a longer one would end after 1 ms. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/**
 * The clock of this machine: `Date.now` for wall time, `performance.now` for monotonic time, Node's timers for waits.
 * `wallOffsetMs` (ms, either sign) is added to wall time: a clock that is wrong, as tests of the guarantees need it.
 */
export function systemClock(wallOffsetMs = 0): Clock {
  const monotonicMs = (): number => performance.now();

  function after(ms: number, run: () => void): () => void {
    if (Number.isNaN(ms)) throw new RangeError('a wait of NaN ms');
    const dueMs = monotonicMs() + Math.max(0, ms);
    let timer: NodeJS.Timeout | undefined;
    const wait = (): void => {
      // Rounded up, since Node cuts fractions of a ms; a timer that ends early all the same waits for the rest. Where the
      // thread stood still meanwhile nothing is left to wait for, and Node would warn of a negative time.
      const restMs = Math.max(0, Math.ceil(dueMs - monotonicMs()));
      timer = setTimeout(
        () => {
          if (monotonicMs() >= dueMs) run();
          else wait();
        },
        Math.min(restMs, TIMER_MAX_MS),
      );
    };
    wait();
    return () => clearTimeout(timer);
  }

  return {
    wallMs: () => Date.now() + wallOffsetMs,
    monotonicMs,
    after,
    sleep: sleepBy(after),
  };
}
