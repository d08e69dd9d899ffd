/**
 * No occurrence: what `next` and `last` answer where there is none. All nominal times are 0 or later, so it is below each.
 */
export const NO_OCCURRENCE = -1;

/** The nominal times of a schedule without its bounds, in whole UTC ms from 0 to `LIMITS.timeMaxMs`. */
export interface Occurrences {
  /** First one strictly after, or NO_OCCURRENCE. */
  next(afterMs: number): number;
  /** Latest one in (afterMs, atOrBeforeMs], or NO_OCCURRENCE. */
  last(atOrBeforeMs: number, afterMs: number): number;
  /** How many lie in (afterMs, upToMs]; computed, not walked. */
  count(afterMs: number, upToMs: number): number;
}
