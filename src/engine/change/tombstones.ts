import type { Clock } from '../../ports/clock.ts';
import type { JobStore } from '../../ports/job-store.ts';

/**
 * Tombstones are swept when their change was committed this long ago, in ms: until then they also keep a job that is made
 * again behind the end of the deleted one, where the clocks of two API processes differ.
 */
const SWEEP_AFTER_MS = 600_000;
const SWEEP_EVERY_MS = 60_000;
const SWEEP_AT_ONCE = 1_000;

/** Removes the tombstones of one changes partition, some time after their changes were committed. */
export class Tombstones {
  readonly #jobs: JobStore;
  readonly #clock: Clock;
  readonly #partition: number;
  /** Committed offsets with the monotonic time of their commit, a minute apart, oldest first. */
  readonly #committed: { atMs: number; next: number }[] = [];

  constructor(jobs: JobStore, clock: Clock, partition: number) {
    this.#jobs = jobs;
    this.#clock = clock;
    this.#partition = partition;
  }

  /** Everything below `next` is committed. What a crash leaves is swept with the tombstones of a later minute. */
  async committed(next: number): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    const last = this.#committed.at(-1);
    if (last !== undefined && nowMs - last.atMs < SWEEP_EVERY_MS) return;
    this.#committed.push({ atMs: nowMs, next });
    const oldest = this.#committed[0]!;
    if (nowMs - oldest.atMs < SWEEP_AFTER_MS) return;
    this.#committed.shift();
    await this.#jobs.sweep(this.#partition, oldest.next, SWEEP_AT_ONCE);
  }
}
