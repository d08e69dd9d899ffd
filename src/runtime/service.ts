import type { Clock } from '../ports/clock.ts';
import type { Telemetry } from '../ports/telemetry.ts';

/**
 * One start/stop contract for everything that lives long.
 * - `start` twice, also at the same time: the second joins the first. After a failed start the service is stopped, what was
 *   started is taken back, and `start` may be called again.
 * - `stop` twice, before a start, or during one: it waits for the start to end, stops once, and answers when all is down.
 *   `stop` never throws; what went wrong is in the telemetry.
 * - `start` during a stop waits for its end first.
 */
export interface Service {
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Builds a service from a start that answers its own stop. */
export function service(name: string, telemetry: Telemetry, begin: () => Promise<() => Promise<void>>): Service {
  let end: (() => Promise<void>) | null = null;
  let starting: Promise<void> | null = null;
  let stopping: Promise<void> | null = null;

  async function runStart(): Promise<void> {
    if (stopping !== null) await stopping;
    if (end !== null) return;
    end = await begin();
  }
  async function runStop(): Promise<void> {
    if (starting !== null) await starting.catch(() => {});
    const last = end;
    end = null;
    if (last === null) return;
    try {
      await last();
    } catch (error) {
      telemetry.event('error', 'a service did not stop cleanly', { service: name, error: String(error) });
    }
  }
  return {
    start() {
      starting ??= runStart().finally(() => {
        starting = null;
      });
      return starting;
    },
    stop() {
      stopping ??= runStop().finally(() => {
        stopping = null;
      });
      return stopping;
    },
  };
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

/**
 * A loop that no single error ends: an error is counted, told and followed by a growing pause. `wake` ends the present or
 * the next wait at once, so a wake-up is never lost. Stop aborts the wait and lets a running round finish.
 */
export function loop(options: LoopOptions): Service & { wake(): void } {
  const { name, clock, telemetry, round, retryMs = 50, retryMaxMs = 2_000 } = options;
  let woken = false;
  let waiting: AbortController | null = null;

  async function pause(ms: number): Promise<void> {
    if (woken || ms <= 0) {
      woken = false;
      return;
    }
    waiting = new AbortController();
    await clock.sleep(ms, waiting.signal);
    waiting = null;
    woken = false;
  }
  const own = service(name, telemetry, async () => {
    const stopped = new AbortController();
    const run = async (): Promise<void> => {
      let failures = 0;
      while (!stopped.signal.aborted) {
        let waitMs: number;
        try {
          waitMs = await round(stopped.signal);
          failures = 0;
        } catch (error) {
          if (stopped.signal.aborted) return;
          waitMs = Math.min(retryMaxMs, retryMs * 2 ** Math.min(failures, 20));
          failures += 1;
          telemetry.count('loop_errors_total', { loop: name });
          telemetry.event('error', 'a loop failed and goes on', { loop: name, error: String(error), waitMs });
        }
        if (!stopped.signal.aborted) await pause(waitMs);
      }
    };
    const running = run();
    return async () => {
      stopped.abort();
      waiting?.abort();
      await running;
    };
  });
  return {
    start: () => own.start(),
    stop: () => own.stop(),
    wake() {
      woken = true;
      waiting?.abort();
    },
  };
}
