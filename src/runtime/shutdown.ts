import type { Clock } from '../ports/clock.ts';
import type { Log } from './log.ts';
import type { Service } from './service.ts';

/** What of `process` is used here, so that a test can stand in for it. */
export interface ProcessEvents {
  on(event: string, listener: (value: unknown) => void): unknown;
  off(event: string, listener: (value: unknown) => void): unknown;
  exit(code: number): void;
}

/** A stop that takes longer, in ms, is given up: whoever started us would kill us next, without a line in the log. */
const STOP_MS = 25_000;

/**
 * Ends the process in order: the first SIGTERM or SIGINT stops the service and then exits with 0, a second one, or a stop
 * that hangs, exits with 1 at once. A rejection or an exception that nobody caught is logged and exits with 1: the state
 * is unknown then, and others take over from what is durable. Answers a function that takes the listeners off again.
 */
export function stopOnSignals(running: Service, log: Log, clock: Clock, events: ProcessEvents = process): () => void {
  let stopping = false;
  const onSignal = (signal: string) => (): void => {
    if (stopping) {
      log.warn({ signal }, 'a second signal: leaving at once');
      events.exit(1);
      return;
    }
    stopping = true;
    log.info({ signal }, 'stopping');
    const cancel = clock.after(STOP_MS, () => {
      log.error({ afterMs: STOP_MS }, 'the stop hangs: leaving');
      events.exit(1);
    });
    // `stop` never rejects; the second handler is for a service that breaks its contract.
    running.stop().then(
      () => {
        cancel();
        log.info({}, 'stopped');
        events.exit(0);
      },
      (error: unknown) => onFatal('stop failed')(error),
    );
  };
  const onFatal =
    (what: string) =>
    (error: unknown): void => {
      log.fatal({ err: error instanceof Error ? error : new Error(String(error)) }, what);
      events.exit(1);
    };
  const listeners: [string, (value: unknown) => void][] = [
    ['SIGTERM', onSignal('SIGTERM')],
    ['SIGINT', onSignal('SIGINT')],
    ['unhandledRejection', onFatal('a rejection that nobody caught')],
    ['uncaughtException', onFatal('an exception that nobody caught')],
  ];
  for (const [event, listener] of listeners) events.on(event, listener);
  return () => {
    for (const [event, listener] of listeners) events.off(event, listener);
  };
}
