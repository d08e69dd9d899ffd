import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../ports/clock.ts';
import type { Telemetry } from '../ports/telemetry.ts';

/**
 * One start/stop contract for everything that lives long. Starts and stops of one service run one after the other in the
 * order in which they were asked for, so the last one asked for is the state in which it ends.
 * - `start` twice, also at the same time: the second joins the first. After a failed start the service is stopped, what was
 *   started is taken back, and `start` may be called again.
 * - `stop` twice, before a start, or during one: it waits for the start to end, stops once, and answers when all is down.
 *   `stop` never throws; what went wrong is in the telemetry.
 * - `start` during a stop waits for its end first.
 * A service must not wait for its own stop (nor a loop's round for its loop's): that would wait for itself.
 */
export interface Service {
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Builds a service from a start that answers its own stop. */
export function service(name: string, telemetry: Telemetry, begin: () => Promise<() => Promise<void>>): Service {
  let end: (() => Promise<void>) | null = null;
  /** The step asked for last, while it waits or runs: another call of its kind joins it. */
  let last: { kind: 'start' | 'stop'; done: Promise<void> } | null = null;

  async function runStart(): Promise<void> {
    if (end === null) end = await begin();
  }
  async function runStop(): Promise<void> {
    const stop = end;
    end = null;
    try {
      await stop?.();
    } catch (error) {
      telemetry.event('error', 'a service did not stop cleanly', { service: name, error: String(error) });
    }
  }
  function ask(kind: 'start' | 'stop', run: () => Promise<void>): Promise<void> {
    if (last?.kind === kind) return last.done;
    // What went wrong before belongs to whoever asked for it.
    const before = last === null ? Promise.resolve() : last.done.catch(() => {});
    const step = { kind, done: before.then(run) };
    const forget = (): void => {
      if (last === step) last = null;
    };
    step.done.then(forget, forget);
    last = step;
    return step.done;
  }
  return { start: () => ask('start', runStart), stop: () => ask('stop', runStop) };
}

/** Starts services in order; when one fails, those before it are stopped in reverse order. Stops in reverse order. */
export function inOrder(name: string, telemetry: Telemetry, services: readonly Service[]): Service {
  return service(name, telemetry, async () => {
    const started: Service[] = [];
    const stopAll = async (): Promise<void> => {
      for (const one of started.reverse()) await one.stop();
    };
    try {
      for (const one of services) {
        await one.start();
        started.push(one);
      }
    } catch (error) {
      await stopAll();
      throw error;
    }
    return stopAll;
  });
}

export interface LoopOptions {
  name: string;
  clock: Clock;
  telemetry: Telemetry;
  /** One round. It answers how many ms to wait before the next one (0: at once). */
  round: (signal: AbortSignal) => Promise<number>;
  /** Waits after errors in a row: doubled from this, in ms, up to `retryMaxMs`. */
  retryMs?: number;
  retryMaxMs?: number;
}

/** A reason of its own spares each wake-up the making of an error, which cost a busy worker 5 % of its time. */
const WOKEN = 'woken';

/**
 * A loop that no single error ends: an error is counted, told and followed by a growing pause. `wake` ends the present or
 * the next wait at once, so a wake-up is never lost; the pause after an error it does not end, or work that keeps coming
 * would make a failing loop spin. Stop aborts the wait and lets a running round finish. Between two rounds the event loop
 * always gets its turn.
 */
export function loop(options: LoopOptions): Service & { wake(): void } {
  const { name, clock, telemetry, round, retryMs = 50, retryMaxMs = 2_000 } = options;
  let woken = false;
  /** Ends the present wait, while it is one that a wake-up ends. */
  let waiting: AbortController | null = null;

  async function run(stopped: AbortSignal): Promise<void> {
    let failures = 0;
    while (!stopped.aborted) {
      try {
        const waitMs = await round(stopped);
        failures = 0;
        await pause(waitMs, stopped);
      } catch (error) {
        if (stopped.aborted) return;
        const waitMs = Math.min(retryMaxMs, retryMs * 2 ** Math.min(failures, 20));
        failures += 1;
        telemetry.count('loop_errors_total', { loop: name });
        telemetry.event('error', 'a loop failed and goes on', { loop: name, error: String(error), waitMs });
        await clock.sleep(waitMs, stopped);
      }
    }
  }
  async function pause(ms: number, stopped: AbortSignal): Promise<void> {
    if (!woken && ms > 0 && !stopped.aborted) {
      const wait = new AbortController();
      const abort = (): void => wait.abort();
      stopped.addEventListener('abort', abort, { once: true });
      waiting = wait;
      await clock.sleep(ms, wait.signal);
      waiting = null;
      stopped.removeEventListener('abort', abort);
    } else {
      await setImmediate();
    }
    woken = false;
  }
  const own = service(name, telemetry, async () => {
    const stopped = new AbortController();
    const running = run(stopped.signal);
    return async () => {
      stopped.abort();
      await running;
    };
  });
  return {
    start: () => own.start(),
    stop: () => own.stop(),
    wake() {
      woken = true;
      waiting?.abort(WOKEN);
    },
  };
}
