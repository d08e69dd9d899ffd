/**
 * Bounds the transactions per second of all slots that share it: each one begun moves the time from which the next may begin.
 * What was not used is kept for a moment, so slots that are due together need not wait for each other.
 */
export class CommitBudget {
  /** Unused time that is kept, in ms. */
  static readonly #KEPT_MS = 50;
  readonly #everyMs: number;
  #nextMs = Number.NEGATIVE_INFINITY;

  constructor(perSecond: number) {
    this.#everyMs = 1_000 / perSecond;
  }

  /** Whether one may begin now, monotonic ms; then it counts as begun. */
  take(nowMs: number): boolean {
    if (nowMs < this.#nextMs) return false;
    this.#nextMs = Math.max(this.#nextMs, nowMs - CommitBudget.#KEPT_MS) + this.#everyMs;
    return true;
  }
}
