/** What a skipped local time does. `fire-after` (default; fixed-time cron only): once, at the first instant after the gap. */
export type GapPolicy = 'fire-after' | 'skip';

/** What a repeated local time does. `auto` (default): a fixed-time cron fires in its first pass, a wildcard cron in both. */
export type OverlapPolicy = 'auto' | 'first' | 'both';

/** Times of a calendar, in the words of `cron/parse.ts`. */
export interface CronSchedule {
  kind: 'cron';
  /** 5 fields (minute first), 6 (second first), 7 (with year), or a macro such as `@daily`. */
  expression: string;
  /** Exact IANA name (links included), `Z`, or a fixed offset `+HH:MM`. Absent means UTC. */
  zone?: string;
  gap?: GapPolicy;
  overlap?: OverlapPolicy;
}

/** A grid of real time: it knows no clock changes. */
export interface RateSchedule {
  kind: 'rate';
  /** Period in whole ms, `LIMITS.ratePeriodMinMs` to `LIMITS.ratePeriodMaxMs`. */
  everyMs: number;
  /**
   * Time of the first occurrence, UTC ms. Absent: the start of the bounds if there is one, else one period after creation
   * (see `normalSchedule`).
   */
  anchorMs?: number;
}

/** One occurrence. A delay is turned into its time when the job is created. */
export interface OnceSchedule {
  kind: 'once';
  /** UTC ms, 0 to `LIMITS.timeMaxMs`. */
  atMs: number;
}

export type Schedule = CronSchedule | RateSchedule | OnceSchedule;

/** What narrows the occurrences of a schedule. All times are UTC ms. */
export interface ScheduleBounds {
  /** First and last ms at which an occurrence may lie, both inclusive. */
  startMs?: number;
  endMs?: number;
  /** At most this many occurrences after creation, 1 to `LIMITS.maxCount`; it becomes an end time (`normalSchedule`). */
  maxCount?: number;
  /** Width in ms of the window over which jobs are spread: each has a constant offset 0 <= offset < spreadMs. */
  spreadMs?: number;
  /** Names of exclusion calendars: an occurrence that lies in any of them does not happen. */
  calendars?: string[];
}

/** A weekday in a calendar. */
export type Weekday = 'sun' | 'mon' | 'tue' | 'wed' | 'thu' | 'fri' | 'sat';

/**
 * An exclusion calendar, named and shared by jobs. Everything is local time of `zone`; an instant is excluded when any rule
 * covers it. At least one rule must be there.
 */
export interface CalendarDefinition {
  /** As in a cron schedule. Absent means UTC. */
  zone?: string;
  /** Whole days, `YYYY-MM-DD`. */
  dates?: string[];
  /** Whole days of every year, `MM-DD`. */
  yearly?: string[];
  /** Whole days from one date to another, both inclusive. */
  ranges?: { from: string; to: string }[];
  weekdays?: Weekday[];
  /** From a time of day up to another, exclusive, `HH:MM` or `HH:MM:SS` (`24:00` as an end); from > to runs over midnight. */
  times?: { from: string; to: string }[];
}
