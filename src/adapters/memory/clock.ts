import { type Clock, sleepBy } from '../../ports/clock.ts';

/** A clock that stands until somebody moves it. */
export interface ManualClock extends Clock {
  /**
   * Lets `ms` pass on both clocks. Whatever falls due runs in the order of its time (of equal times, in the order it was
   * asked for), each at its own instant and with everything settled that it set going before the next one runs; so waits
   * that begin meanwhile and end within these ms are run too.
   */
  advance(ms: number): Promise<void>;
  /** The wall clock jumps to this time, UTC ms; no time passes. */
  setWall(ms: number): void;
  /** The clock of another machine: the same time passes there, but its wall clock is `byMs` ahead (negative: behind). */
  skewed(byMs: number): Clock;
}

interface Timer {
  dueMs: number;
  run: () => void;
}

/** Lets promises settle that are under way: one turn of the event loop, which takes no time of this clock. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export function manualClock(startMs: number): ManualClock {
  let passedMs = 0;
  let wallAtZeroMs = startMs;
  // Kept sorted by time; a new timer goes behind those of the same time.
  const timers: Timer[] = [];

  function after(ms: number, run: () => void): () => void {
    if (Number.isNaN(ms)) throw new RangeError('a wait of NaN ms');
    const timer = { dueMs: passedMs + Math.max(0, ms), run };
    const later = timers.findIndex((other) => other.dueMs > timer.dueMs);
    timers.splice(later < 0 ? timers.length : later, 0, timer);
    return () => {
      const at = timers.indexOf(timer);
      if (at >= 0) timers.splice(at, 1);
    };
  }

  const sleep = sleepBy(after);

  async function advance(ms: number): Promise<void> {
    const endMs = passedMs + ms;
    await settled();
    for (let next = timers[0]; next !== undefined && next.dueMs <= endMs; next = timers[0]) {
      timers.shift();
      passedMs = Math.max(passedMs, next.dueMs);
      next.run();
      await settled();
    }
    passedMs = endMs;
  }

  const wallMs = (): number => Math.floor(wallAtZeroMs + passedMs);
  const monotonicMs = (): number => passedMs;
  return {
    wallMs,
    monotonicMs,
    sleep,
    after,
    advance,
    setWall(ms) {
      wallAtZeroMs = ms - passedMs;
    },
    skewed: (byMs) => ({ wallMs: () => wallMs() + byMs, monotonicMs, sleep, after }),
  };
}
