/** A read that takes longer, in ms, is no good witness: what it shows may be that old. */
const SLOW_READ_MS = 500;
/** Reads further apart than this, in ms, leave a gap in which anything may have been wrong, with the store or with us. */
const GAP_MS = 1_000;

/**
 * Own monotonic time, running only between successful reads of a store: what stands still in it stood still while the store
 * was seen to work. A read that failed or took long stops it until the next good one. An interval counts from the end of
 * one read to the start of the next, so never more than really passed between the two pictures.
 * Example: reads at 0-10, 100-110, (failed at 200), 300-310, 400-405: 90 and 90 ms have been observed, 180 in all.
 */
export class ObservedTime {
  #nowMs = 0;
  #lastEndMs: number | null = null;

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Notes a successful read, by the start and end of its monotonic time. */
  read(startMs: number, endMs: number): void {
    const good = this.#lastEndMs !== null && endMs - startMs <= SLOW_READ_MS && startMs - this.#lastEndMs <= GAP_MS;
    if (good) this.#nowMs += Math.max(0, startMs - this.#lastEndMs!);
    this.#lastEndMs = endMs;
  }

  failed(): void {
    this.#lastEndMs = null;
  }
}
