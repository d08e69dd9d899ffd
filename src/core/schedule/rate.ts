import { LIMITS } from '../limits.ts';
import { NO_OCCURRENCE, type Occurrences } from './occurrences.ts';

/**
 * A fixed rate: `anchorMs + k * everyMs` for k = 0, 1, 2 and so on. Pure arithmetic on whole ms, so neither restarts nor the
 * run time of a handler nor clock changes move it: 24 h are 24 h of real time.
 */
export class RateTimes implements Occurrences {
  private readonly anchorMs: number;
  readonly everyMs: number;

  constructor(anchorMs: number, everyMs: number) {
    this.anchorMs = anchorMs;
    this.everyMs = everyMs;
  }

  next(afterMs: number): number {
    if (afterMs < this.anchorMs) return this.anchorMs;
    const next = this.anchorMs + this.ordinal(afterMs) * this.everyMs;
    return next <= LIMITS.timeMaxMs ? next : NO_OCCURRENCE;
  }

  last(atOrBeforeMs: number, afterMs: number): number {
    const top = Math.min(atOrBeforeMs, LIMITS.timeMaxMs);
    if (top < this.anchorMs) return NO_OCCURRENCE;
    const last = this.anchorMs + (this.ordinal(top) - 1) * this.everyMs;
    return last > afterMs ? last : NO_OCCURRENCE;
  }

  count(afterMs: number, upToMs: number): number {
    return Math.max(0, this.ordinal(Math.min(upToMs, LIMITS.timeMaxMs)) - this.ordinal(afterMs));
  }

  /**
   * Number of grid points up to and including an instant. The floor of the rounded quotient of two whole numbers is exact
   * while the dividend is below 2^53: the quotient is then further from the next whole number than it is rounded.
   */
  private ordinal(ms: number): number {
    return ms < this.anchorMs ? 0 : Math.floor((ms - this.anchorMs) / this.everyMs) + 1;
  }
}

/** A single instant. */
export class OnceTime implements Occurrences {
  private readonly atMs: number;

  constructor(atMs: number) {
    this.atMs = atMs;
  }

  next(afterMs: number): number {
    return this.atMs > afterMs ? this.atMs : NO_OCCURRENCE;
  }

  last(atOrBeforeMs: number, afterMs: number): number {
    return this.atMs > afterMs && this.atMs <= atOrBeforeMs ? this.atMs : NO_OCCURRENCE;
  }

  count(afterMs: number, upToMs: number): number {
    return this.atMs > afterMs && this.atMs <= upToMs ? 1 : 0;
  }
}
