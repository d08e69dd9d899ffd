import { type CarillonError, carillonError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import type { Schedule, ScheduleBounds } from './types.ts';

/** A refusal of a field other than the cron expression, whose fields have messages of their own (`cron/field.ts`). */
export function invalidSchedule(field: string, reason: string, token = ''): CarillonError {
  return carillonError('schedule-invalid', `${field} ${reason}`, { field, token });
}

/**
 * Checks the kinds and ranges of all values that reading does not check by itself. Callers give whatever came from outside.
 *
 * @throws CarillonError `schedule-invalid`
 */
export function checkSchedule(schedule: Schedule): void {
  switch (schedule?.kind) {
    case 'cron':
      checkOneOf('schedule.gap', schedule.gap, ['fire-after', 'skip']);
      checkOneOf('schedule.overlap', schedule.overlap, ['auto', 'first', 'both']);
      return;
    case 'rate':
      checkWhole('schedule.everyMs', schedule.everyMs, LIMITS.ratePeriodMinMs, LIMITS.ratePeriodMaxMs);
      if (schedule.anchorMs !== undefined) checkWhole('schedule.anchorMs', schedule.anchorMs, 0, LIMITS.timeMaxMs);
      return;
    case 'once':
      checkWhole('schedule.atMs', schedule.atMs, 0, LIMITS.timeMaxMs);
      return;
    default:
      throw invalidSchedule('schedule.kind', 'must be "cron", "rate" or "once"');
  }
}

/** As `checkSchedule`, for the bounds. */
export function checkBounds({ startMs, endMs, maxCount, spreadMs, calendars }: ScheduleBounds): void {
  if (startMs !== undefined) checkWhole('bounds.startMs', startMs, 0, LIMITS.timeMaxMs);
  if (endMs !== undefined) checkWhole('bounds.endMs', endMs, 0, LIMITS.timeMaxMs);
  if (startMs !== undefined && endMs !== undefined && endMs < startMs) {
    throw invalidSchedule('bounds.endMs', 'lies before bounds.startMs', String(endMs));
  }
  if (maxCount !== undefined) checkWhole('bounds.maxCount', maxCount, 1, LIMITS.maxCount);
  if (spreadMs !== undefined) checkWhole('bounds.spreadMs', spreadMs, 1, LIMITS.spreadMaxMs);
  if (calendars !== undefined && (!Array.isArray(calendars) || calendars.length > LIMITS.calendarsPerJob)) {
    throw invalidSchedule('bounds.calendars', `must be a list of at most ${LIMITS.calendarsPerJob} names`);
  }
}

function checkWhole(field: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return;
  throw invalidSchedule(field, `must be a whole number of at least ${min} and at most ${max}`, shown(value));
}

function checkOneOf(field: string, value: string | undefined, allowed: readonly string[]): void {
  if (value === undefined || allowed.includes(value)) return;
  throw invalidSchedule(field, `must be one of ${allowed.join(', ')}`, shown(value));
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'undefined').slice(0, 40);
}
