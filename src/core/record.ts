import { carillonError } from './errors.ts';
import type { Job, JobDefinition, JobRecord } from './job.ts';
import type { CalendarDefinition } from './schedule/types.ts';

/**
 * The compact job record: what a wheel must know of a job, as bytes for the trigger store and the fast path. A JSON array of
 * fixed order, which is a third shorter than an object; the first element is the version of the form.
 */
const FORM = 1;
const decoder = new TextDecoder();

/** `calendars` holds the definitions of those that the bounds name; a job without calendars has none in its record. */
export function recordOf(job: Job, calendars?: Record<string, CalendarDefinition>): JobRecord {
  const { cluster, key, version, state, createdMs, cutMs, schedule, bounds, misfire, payload, contentType } = job;
  const record = { cluster, key, version, state, createdMs, cutMs, schedule, bounds, misfire, payload, contentType };
  return calendars === undefined ? record : { ...record, calendars };
}

export function encodeRecord(r: JobRecord): Uint8Array {
  // A Buffer of the pool: records are small and many, and a buffer of its own for each costs more than its bytes.
  return Buffer.from(
    JSON.stringify([
      FORM,
      r.version,
      r.state,
      r.cluster,
      r.key,
      r.createdMs,
      r.cutMs,
      r.schedule,
      r.bounds,
      r.misfire,
      r.contentType,
      r.payload,
      ...(r.calendars === undefined ? [] : [r.calendars]),
    ]),
  );
}

/** Throws `internal` for bytes of another form. */
export function decodeRecord(bytes: Uint8Array): JobRecord {
  const a: unknown = JSON.parse(decoder.decode(bytes));
  if (!Array.isArray(a) || a[0] !== FORM || a.length < 12) {
    throw carillonError('internal', 'a job record has an unknown form');
  }
  return {
    version: a[1],
    state: a[2],
    cluster: a[3],
    key: a[4],
    createdMs: a[5],
    cutMs: a[6],
    schedule: a[7],
    bounds: a[8],
    misfire: a[9],
    contentType: a[10],
    payload: a[11],
    ...(a[12] === undefined ? {} : { calendars: a[12] }),
  };
}

/** The definition as JSON: an array of fixed order, with which the record of a job without calendars ends. */
export function definitionText({ schedule, bounds, misfire, contentType, payload }: JobDefinition): string {
  return JSON.stringify([schedule, bounds, misfire, contentType, payload]);
}

/** The definition that such a text says. */
export function definitionOf(text: string): JobDefinition {
  const [schedule, bounds, misfire, contentType, payload] = JSON.parse(text);
  return { schedule, bounds, misfire, payload, contentType };
}
