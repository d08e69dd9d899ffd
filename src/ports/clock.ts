/**
 * The only source of time. Two kinds that are never mixed: wall time in UTC ms for nominal times and stored stamps, which
 * may jump; monotonic time in ms for waiting, leases and time-outs, which never goes back and has no epoch. Timers are
 * monotonic; a wait may be of any length (the adapter cuts waits above 2^31 - 1 ms, which Node would turn into 1 ms): below 0
 * it is 0, infinity ends by abort or cancel only, and NaN is a fault of the caller (RangeError).
 */
export interface Clock {
  wallMs(): number;
  monotonicMs(): number;
  /** Ends after `ms` of monotonic time, or at once when `signal` is aborted (abort is no error). */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `run` once after `ms`; the answer cancels it. */
  after(ms: number, run: () => void): () => void;
}

/** Wall time of another machine, UTC ms, as it was while the question was on its way. */
export type OtherClock = () => Promise<number>;

/** The `sleep` of a clock that has `after`: both clocks, the system's and the one moved by hand, wait in the same way. */
export function sleepBy(after: Clock['after']): Clock['sleep'] {
  return async (ms, signal) => {
    if (signal?.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const aborted = (): void => resolve();
    const cancel = after(ms, resolve);
    signal?.addEventListener('abort', aborted);
    await promise;
    cancel();
    signal?.removeEventListener('abort', aborted);
  };
}
