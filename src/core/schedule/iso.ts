import { carillonError } from '../errors.ts';
import { LIMITS } from '../limits.ts';

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d)$/;

/**
 * UTC ms of an RFC 3339 time. The offset must be there: a time without one would be read in the zone of whatever host reads
 * it. At most 3 digits of fraction; a date that does not exist (`02-30`) is refused, and so is a time outside 1970 to 9999.
 *
 * @throws CarillonError `request-invalid`
 */
export function parseInstant(text: string, field: string): number {
  const refuse = (reason: string) => {
    throw carillonError('request-invalid', `${field}: "${String(text).slice(0, 40)}" ${reason}`, {
      field,
      token: String(text).slice(0, 40),
    });
  };
  if (typeof text !== 'string' || !RFC_3339.test(text)) {
    refuse('is not a time with an offset, such as 2027-01-31T09:00:00Z or 2027-01-31T09:00:00.500+01:00');
  }
  const ms = Date.parse(text);
  // Date.parse lets 02-30 run on into March, and 24:00 into the next day; date and hour must come back as they were written.
  const hour = Date.parse(`${text.slice(0, 13)}:00:00Z`);
  if (Number.isNaN(ms) || new Date(hour).toISOString().slice(0, 13) !== text.slice(0, 13)) refuse('does not exist');
  if (ms < 0 || ms > LIMITS.timeMaxMs) refuse('is not between 1970 and 9999');
  return ms;
}

/** RFC 3339 in UTC; ms are written only where they are not zero: `2027-01-01T00:00:00Z`, `2027-01-01T00:00:00.500Z`. */
export function formatInstant(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}

const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** Local time with weekday and offset, for people: `Sun 2027-03-28 03:00:00 +02:00`. `offset` is in seconds east of UTC. */
export function formatLocal(ms: number, offset: number): string {
  const local = new Date(ms + offset * 1000);
  const minutes = Math.floor(Math.abs(offset) / 60);
  const clock = `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
  const time = local.toISOString().replace('T', ' ').replace('.000Z', '').replace('Z', '');
  return `${WEEKDAYS[local.getUTCDay()]} ${time} ${offset < 0 ? '-' : '+'}${clock}`;
}
