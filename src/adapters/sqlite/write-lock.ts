const FREE = 0;
const HELD = 1;
/** Held, and somebody waits for it. */
const WANTED = 2;
/** A holder that keeps it for longer than this, in ms, has died with its thread. */
const PATIENCE_MS = 5_000;

/**
 * The turn to write among the threads of one process. SQLite's own write lock decides what is right; but whoever finds it
 * taken sleeps there in growing steps of 1 to 100 ms and, beside a thread that commits all the time, misses every gap: (m)
 * 360 ms for a commit of 0.2 ms. Here the one that waits is woken when the lock is free. Nothing relies on it: a thread that
 * gives up waiting goes on to SQLite's lock.
 */
export class WriteLock {
  /** To be given to the other threads. */
  readonly buffer: SharedArrayBuffer;
  readonly #state: Int32Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#state = new Int32Array(buffer);
  }

  /** Waits for the turn; the thread stands meanwhile, as it does for SQLite's lock. */
  acquire(): void {
    if (Atomics.compareExchange(this.#state, 0, FREE, HELD) === FREE) return;
    while (Atomics.exchange(this.#state, 0, WANTED) !== FREE) {
      if (Atomics.wait(this.#state, 0, WANTED, PATIENCE_MS) === 'timed-out') return;
    }
  }

  release(): void {
    if (Atomics.exchange(this.#state, 0, FREE) === WANTED) Atomics.notify(this.#state, 0, 1);
  }
}
