import { carillonError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import type { Calendar } from './calendar.ts';
import { compileCron } from './cron/compile.ts';
import { formatInstant } from './iso.ts';
import { NO_OCCURRENCE, type Occurrences } from './occurrences.ts';
import { OnceTime, RateTimes } from './rate.ts';
import { stableHash } from './stable-hash.ts';
import type { Schedule, ScheduleBounds } from './types.ts';
import { checkBounds, checkSchedule, invalidSchedule } from './validate.ts';

export { NO_OCCURRENCE } from './occurrences.ts';

/** What a schedule needs to know of its job. */
export interface ScheduleContext {
  /** The job's key: `H` and the spread offset are chosen by it. Without one both are refused. */
  key?: string;
  /** Creation of the job, UTC ms: a rate without an anchor and a maximum count are counted from it. */
  createdMs: number;
  /** The exclusion calendars by name. */
  calendar?: (name: string) => Calendar | undefined;
}

/** A schedule with its bounds, ready to be asked. All times are NOMINAL and UTC ms; effective = nominal + `offsetMs`. */
export interface CompiledSchedule extends Occurrences {
  /** Constant spread offset of the job, 0 <= offsetMs < spreadMs. */
  readonly offsetMs: number;
  /** Last ms at which an occurrence may lie, inclusive; Infinity if there is no end. */
  readonly endMs: number;
  /** Period of a fixed rate without an end or calendars: the next occurrence after one of its own. 0: ask `next`. */
  readonly everyMs: number;
}

/**
 * Makes a schedule ready. Cheap enough for every job that a worker loads: crons are shared between all jobs with the same
 * fields, zone and policies. The normal form (`normalSchedule`) is the quick case; a rate without an anchor and a maximum
 * count are put into it first.
 *
 * @throws CarillonError `schedule-invalid`, `schedule-impossible`, `zone-unknown`, `calendar-unknown`
 */
export function compileSchedule(
  schedule: Schedule,
  bounds: ScheduleBounds,
  context: ScheduleContext,
): CompiledSchedule {
  checkSchedule(schedule);
  checkBounds(bounds);
  const startMs = bounds.startMs ?? 0;
  const endMs = bounds.endMs ?? Number.POSITIVE_INFINITY;
  const base = compileBase(anchored(schedule, bounds, context), context);
  const calendars = (bounds.calendars ?? []).map((name, index) => {
    const calendar = context.calendar?.(name);
    if (calendar) return calendar;
    throw carillonError('calendar-unknown', `there is no calendar "${name}"`, {
      field: `bounds.calendars[${index}]`,
      token: name,
    });
  });
  const offsetMs = spreadOffset(bounds.spreadMs, context.key);
  const compiled = new BoundedSchedule(base, startMs, endMs, calendars, offsetMs);
  if (bounds.maxCount === undefined) return compiled;
  const last = nthAfter(compiled, bounds.maxCount, context.createdMs, calendars.length > 0);
  return new BoundedSchedule(base, startMs, Math.min(endMs, last), calendars, offsetMs);
}

/**
 * The normal form in which a job is stored, after all checks of a registration: a fixed rate is anchored, a maximum count is
 * an end time, and the spread window is shorter than the period. For cron the period is the shortest gap between the next
 * 1,000 occurrences after creation. Putting a normal form into normal form changes nothing.
 *
 * @throws CarillonError as `compileSchedule`
 */
export function normalSchedule(
  schedule: Schedule,
  bounds: ScheduleBounds,
  context: ScheduleContext,
): { schedule: Schedule; bounds: ScheduleBounds } {
  const compiled = compileSchedule(schedule, bounds, context);
  const { maxCount, ...rest } = bounds;
  const normal = anchored(schedule, bounds, context);
  checkSpread(normal, bounds.spreadMs, context);
  if (maxCount === undefined || compiled.endMs === Number.POSITIVE_INFINITY) return { schedule: normal, bounds: rest };
  return { schedule: normal, bounds: { ...rest, endMs: compiled.endMs } };
}

/**
 * The first occurrence after an instant, as the proof that there is one.
 *
 * @throws CarillonError `schedule-impossible`
 */
export function firstOccurrence(compiled: CompiledSchedule, schedule: Schedule, afterMs: number): number {
  const first = compiled.next(afterMs);
  if (first !== NO_OCCURRENCE) return first;
  if (compiled.endMs <= afterMs) {
    throw carillonError('schedule-impossible', `bounds.endMs is not after ${formatInstant(Math.max(0, afterMs))}`, {
      field: 'bounds.endMs',
      token: formatInstant(compiled.endMs),
    });
  }
  const field = { cron: 'schedule.expression', rate: 'schedule.anchorMs', once: 'schedule.atMs' }[schedule.kind];
  const what = schedule.kind === 'cron' ? `"${schedule.expression}"` : `a schedule of kind "${schedule.kind}"`;
  throw carillonError(
    'schedule-impossible',
    `${what} has no occurrence after ${formatInstant(Math.max(0, afterMs))}; check day-of-month, month and year, start and end, and the calendars`,
    { field, ...(schedule.kind === 'cron' && { token: schedule.expression }) },
  );
}

/** Nominal times in (afterMs, upToMs], in order, at most `limit` of them. */
export function nominalTimes(schedule: Occurrences, afterMs: number, upToMs: number, limit: number): number[] {
  const times: number[] = [];
  for (let at = schedule.next(afterMs); at !== NO_OCCURRENCE && at <= upToMs; at = schedule.next(at)) {
    if (times.length === limit) break;
    times.push(at);
  }
  return times;
}

/** A rate without an anchor begins with the start of its bounds, or else one period after creation. */
function anchored(schedule: Schedule, bounds: ScheduleBounds, context: ScheduleContext): Schedule {
  if (schedule.kind !== 'rate' || schedule.anchorMs !== undefined) return schedule;
  return { ...schedule, anchorMs: bounds.startMs ?? context.createdMs + schedule.everyMs };
}

function compileBase(schedule: Schedule, context: ScheduleContext): Occurrences {
  switch (schedule.kind) {
    case 'cron':
      return compileCron(schedule, context.key);
    case 'rate':
      return new RateTimes(schedule.anchorMs!, schedule.everyMs);
    case 'once':
      return new OnceTime(schedule.atMs);
  }
}

class BoundedSchedule implements CompiledSchedule {
  readonly offsetMs: number;
  readonly endMs: number;
  readonly everyMs: number;
  private readonly base: Occurrences;
  private readonly startMs: number;
  private readonly calendars: readonly Calendar[];

  constructor(base: Occurrences, startMs: number, endMs: number, calendars: readonly Calendar[], offsetMs: number) {
    this.base = base;
    this.startMs = startMs;
    this.endMs = endMs;
    this.calendars = calendars;
    this.offsetMs = offsetMs;
    const unbounded = endMs === Number.POSITIVE_INFINITY && calendars.length === 0;
    this.everyMs = unbounded && base instanceof RateTimes ? base.everyMs : 0;
  }

  next(afterMs: number): number {
    let after = afterMs < this.startMs ? this.startMs - 1 : afterMs;
    for (let tries = 0; tries < LIMITS.excludedInARow; tries++) {
      const found = this.base.next(after);
      if (found === NO_OCCURRENCE || found > this.endMs) return NO_OCCURRENCE;
      if (this.calendars.length === 0) return found;
      const excluded = this.excludedAfter(found, found + 1);
      if (!excluded) return found;
      after = excluded.untilMs - 1;
    }
    return NO_OCCURRENCE;
  }

  last(atOrBeforeMs: number, afterMs: number): number {
    const after = Math.max(afterMs, this.startMs - 1);
    let top = Math.min(atOrBeforeMs, this.endMs);
    for (let tries = 0; tries < LIMITS.excludedInARow; tries++) {
      const found = this.base.last(top, after);
      if (found === NO_OCCURRENCE || this.calendars.length === 0) return found;
      const excluded = this.excludedAfter(found, found + 1);
      if (!excluded) return found;
      top = excluded.fromMs - 1;
    }
    return NO_OCCURRENCE;
  }

  count(afterMs: number, upToMs: number): number {
    const top = Math.min(upToMs, this.endMs, LIMITS.timeMaxMs);
    let after = Math.max(afterMs, this.startMs - 1);
    let count = 0;
    // Times between one excluded stretch and the next are counted as they are.
    for (;;) {
      const excluded = this.excludedAfter(after + 1, top + 1);
      if (!excluded) return after < top ? count + this.base.count(after, top) : count;
      if (excluded.fromMs - 1 > after) count += this.base.count(after, excluded.fromMs - 1);
      after = excluded.untilMs - 1;
    }
  }

  /** The earliest excluded stretch of any calendar that ends after an instant and begins before a limit. */
  private excludedAfter(ms: number, limitMs: number): { fromMs: number; untilMs: number } | undefined {
    let earliest: { fromMs: number; untilMs: number } | undefined;
    for (const calendar of this.calendars) {
      const found = calendar.excludedAfter(ms, earliest ? earliest.fromMs : limitMs);
      if (found) earliest = found;
    }
    return earliest;
  }
}

/** Smallest step of the search for the n-th occurrence, in ms. */
const COUNT_STEP_MS = 86_400_000;

/**
 * The n-th occurrence after an instant, or Infinity if there are not so many: whole spans, each twice as long as the one
 * before, are counted until the n-th lies in one, which is then halved down to the ms. So about 100 counts do for any n.
 */
function nthAfter(schedule: CompiledSchedule, n: number, afterMs: number, excluding: boolean): number {
  const horizon = Math.min(
    LIMITS.timeMaxMs,
    schedule.endMs,
    excluding ? afterMs + LIMITS.excludedCountYears * 366 * COUNT_STEP_MS : LIMITS.timeMaxMs,
  );
  let missing = n;
  let low = afterMs;
  for (let span = COUNT_STEP_MS; low < horizon; span *= 2) {
    const high = Math.min(horizon, low + span);
    const count = schedule.count(low, high);
    if (count >= missing) return nthWithin(schedule, missing, low, high);
    missing -= count;
    low = high;
  }
  if (schedule.next(horizon) !== NO_OCCURRENCE) {
    throw invalidSchedule('bounds.maxCount', `is not reached within ${LIMITS.excludedCountYears} years`, String(n));
  }
  return Number.POSITIVE_INFINITY;
}

/** The n-th occurrence after `low`, given that it is not after `high`. */
function nthWithin(schedule: CompiledSchedule, n: number, low: number, high: number): number {
  let below = low;
  let reached = high;
  while (reached - below > 1) {
    const middle = below + Math.floor((reached - below) / 2);
    if (schedule.count(low, middle) >= n) reached = middle;
    else below = middle;
  }
  return reached;
}

/** Constant offset of a job between its nominal and its effective times, in ms: 0 <= offset < spreadMs. */
export function spreadOffset(spreadMs: number | undefined, key: string | undefined): number {
  if (spreadMs === undefined) return 0;
  if (!key)
    throw invalidSchedule('bounds.spreadMs', 'needs the key of a job, which the offset is chosen by (preview: --key)');
  return Math.floor((stableHash(`spread ${key}`) / 2 ** 32) * spreadMs);
}

/** Gaps of a cron that a spread window is compared with. */
const SPREAD_GAPS = 1_000;

function checkSpread(schedule: Schedule, spreadMs: number | undefined, context: ScheduleContext): void {
  if (spreadMs === undefined || schedule.kind === 'once') return;
  const base = compileBase(schedule, context);
  let period = schedule.kind === 'rate' ? schedule.everyMs : Number.POSITIVE_INFINITY;
  if (schedule.kind === 'cron') {
    const times = nominalTimes(base, context.createdMs, LIMITS.timeMaxMs, SPREAD_GAPS + 1);
    for (const [index, at] of times.entries()) {
      if (index > 0) period = Math.min(period, at - times[index - 1]!);
    }
  }
  if (spreadMs >= period) {
    throw invalidSchedule(
      'bounds.spreadMs',
      `must be shorter than the shortest period, ${period} ms`,
      String(spreadMs),
    );
  }
}
