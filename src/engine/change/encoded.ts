import type { Job } from '../../core/job.ts';
import { encodeRecord, recordOf } from '../../core/record.ts';
import type { Calendars } from './calendars.ts';

/**
 * The encoded record of a job, with the calendars as they stand now. A job in the error state is not timed, so it has none:
 * they may be what it failed of.
 */
export function encodedRecord(job: Job, calendars: Calendars): Uint8Array {
  return encodeRecord(recordOf(job, job.state === 'error' ? undefined : calendars.of(job.bounds)));
}

export function base64Record(job: Job, calendars: Calendars): string {
  return Buffer.from(encodedRecord(job, calendars)).toString('base64');
}
