import { carillonError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { compileSchedule, firstOccurrence, nominalTimes, normalSchedule, type ScheduleContext } from './schedule.ts';
import type { Schedule, ScheduleBounds } from './types.ts';

/** One occurrence of a preview, UTC ms. */
export interface PreviewedOccurrence {
  nominalMs: number;
  /** When it fires: the nominal time plus the job's spread offset. */
  effectiveMs: number;
}

/**
 * The next occurrences of any schedule, by the same checks and the same code as a registration and the engine.
 *
 * @param range `afterMs`: nominal times strictly after it; `count`: how many, 1 to `LIMITS.previewCount`
 * @returns in order; fewer than `count` if the schedule ends before
 * @throws CarillonError of `normalSchedule`; `schedule-impossible` if there is none at all; `request-invalid` for the range
 */
export function preview(
  schedule: Schedule,
  bounds: ScheduleBounds,
  context: ScheduleContext,
  { afterMs, count }: { afterMs: number; count: number },
): PreviewedOccurrence[] {
  if (!Number.isInteger(count) || count < 1 || count > LIMITS.previewCount) {
    throw carillonError('request-invalid', `count must be a whole number from 1 to ${LIMITS.previewCount}`, {
      field: 'count',
      token: String(count),
    });
  }
  const normal = normalSchedule(schedule, bounds, context);
  const compiled = compileSchedule(normal.schedule, normal.bounds, context);
  firstOccurrence(compiled, schedule, afterMs);
  return nominalTimes(compiled, afterMs, LIMITS.timeMaxMs, count).map((nominalMs) => ({
    nominalMs,
    effectiveMs: nominalMs + compiled.offsetMs,
  }));
}
