import type { Session } from '../../ports/lease-store.ts';

/** Time constant of smoothing, in ms: a change of rate counts for two thirds after this long. */
const SMOOTHING_MS = 5_000;
/** Time constant, in ms, with which the rate of a slot that nobody reports is forgotten: far above any change of owner. */
const FORGETTING_MS = 60_000;

/**
 * Triggers per second by slot (named as in `slotName`), smoothed over the reports of all workers. A slot that nobody
 * reports (it is between two owners) keeps what it had for a while.
 */
export class SlotRates {
  readonly #rates = new Map<string, number>();
  #lastMs: number | null = null;

  /** Starting values, for slots of which nothing is known yet. */
  seed(rates: ReadonlyMap<string, number>): void {
    for (const [slot, rate] of rates) if (rate > 0 && !this.#rates.has(slot)) this.#rates.set(slot, rate);
  }

  /** Takes in the reports as they are at a monotonic time. */
  observe(sessions: readonly Session[], nowMs: number): void {
    const elapsedMs = nowMs - (this.#lastMs ?? nowMs);
    this.#lastMs = nowMs;
    const part = 1 - Math.exp(-elapsedMs / SMOOTHING_MS);
    const reported = new Map(sessions.flatMap(({ rates }) => Object.entries(rates)));
    for (const [slot, rate] of this.#rates) {
      if (!reported.has(slot)) this.#rates.set(slot, rate * Math.exp(-elapsedMs / FORGETTING_MS));
    }
    for (const [slot, measured] of reported) {
      const before = this.#rates.get(slot) ?? measured;
      this.#rates.set(slot, before + (measured - before) * part);
    }
  }

  of(slot: string): number {
    return this.#rates.get(slot) ?? 0;
  }
}
