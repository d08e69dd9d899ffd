/**
 * The load of most benchmarks, as arithmetic that generator and judge have each for themselves: job i has a phase inside the
 * period and fires at `anchorMs + phase + k * periodMs` for every whole k at or after its start. Nothing here knows `src/`.
 */
export interface Grid {
  jobs: number;
  periodMs: number;
  /** Number in the key of the first job; absent: 0. Jobs before and behind belong to others and are not judged. */
  firstKey?: number;
  /** Time of phase 0, k = 0, UTC ms. */
  anchorMs: number;
  /** `even`: phases fill the period evenly; `one`: all jobs are due at one instant. */
  phases: 'even' | 'one';
  /** Jobs that fire once, at k = 0. */
  once?: boolean;
  /** Jobs start in groups of this size, each `groupEveryMs` after the one before. Absent: all at `startMs`. */
  groupSize?: number;
  groupEveryMs?: number;
  /** No job fires before, UTC ms. */
  startMs: number;
  /** No job fires after, UTC ms; absent: they go on. */
  endMs?: number;
}

/** The golden ratio's fraction: its multiples fill the unit evenly, however many there are, and neighbours lie apart. */
const GOLDEN = 0.618_033_988_749_895;

export function phaseOf(grid: Grid, job: number): number {
  return grid.phases === 'one' ? 0 : Math.floor(((job * GOLDEN) % 1) * grid.periodMs);
}

export function startOf({ startMs, groupSize, groupEveryMs }: Grid, job: number): number {
  return groupSize === undefined ? startMs : startMs + Math.floor(job / groupSize) * (groupEveryMs ?? 0);
}

/** Whether a job has an occurrence at this time, which is that of its turn k. */
export function isDue(grid: Grid, job: number, turn: number, nominalMs: number): boolean {
  if (turn < 0 || (grid.once === true && turn > 0)) return false;
  return nominalMs >= startOf(grid, job) && (grid.endMs === undefined || nominalMs <= grid.endMs);
}
