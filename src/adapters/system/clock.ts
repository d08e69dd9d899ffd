import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, sleepBy } from '../../ports/clock.ts';

/** Greatest wait of one Node timer, in ms: a longer one would end after 1 ms. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** For tests: a folder in which a file named by a process's pid holds ms that are added to its wall clock while it stands there. */
const STEPS_FOLDER = 'CARILLON_TEST_CLOCKS';
const STEPS_LOOK_MS = 50;

/** What a clock that is stepped on purpose has to add now, in ms: read again and again, since steps come while a process runs. */
function stepsOf(folder: string): () => number {
  let stepMs = 0;
  const look = (): void => {
    try {
      stepMs = Number(readFileSync(join(folder, String(process.pid)), 'utf8'));
    } catch {
      stepMs = 0;
    }
  };
  look();
  setInterval(look, STEPS_LOOK_MS).unref();
  return () => stepMs;
}

/**
 * The clock of this machine: `Date.now` for wall time, `performance.now` for monotonic time, Node's timers for waits.
 * `wallOffsetMs` (ms, either sign) is added to wall time: a clock that is wrong, as tests of the guarantees need it.
 */
export function systemClock(wallOffsetMs = 0): Clock {
  const monotonicMs = (): number => performance.now();
  const folder = process.env[STEPS_FOLDER];
  const steps = folder === undefined ? null : stepsOf(folder);

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
    wallMs: steps === null ? () => Date.now() + wallOffsetMs : () => Date.now() + wallOffsetMs + steps(),
    monotonicMs,
    after,
    sleep: sleepBy(after),
  };
}
