import { CarillonError, isCode } from '../../core/errors.ts';
import type { JobDefinition } from '../../core/job.ts';
import type { Calendars } from './calendars.ts';
import { firstEffective, normalTiming, type Timing } from './timing.ts';

/** What a check has found out. */
export interface Checked {
  timing: Timing;
  /** First effective time of a job that is made now, UTC ms. */
  firstMs: number;
}

/**
 * Checks what a registration says before it goes into the changes topic. A schedule that had occurrences and has none any
 * more is answered as an error, not thrown: a job that is there already may be saved so (it is finished, and the saving
 * changes nothing), a new one may not.
 *
 * @throws CarillonError `schedule-invalid`, `schedule-impossible`, `zone-unknown`, `calendar-unknown`
 */
export function checkDefinition(
  definition: Pick<JobDefinition, 'schedule' | 'bounds'>,
  key: string,
  atMs: number,
  calendars: Calendars,
): Checked | CarillonError {
  const timing = normalTiming(definition, key, null, atMs, calendars);
  const timed = { key, ...timing };
  try {
    return { timing, firstMs: firstEffective(timed, atMs, calendars) };
  } catch (error) {
    if (!(error instanceof CarillonError) || !isCode(error, 'schedule-impossible')) throw error;
    firstEffective(timed, -1, calendars);
    return error;
  }
}
