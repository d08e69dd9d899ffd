import { CarillonError, carillonError } from '../../core/errors.ts';

/**
 * First words of Redis's error replies that pass by themselves: a script runs too long, data are loaded, a replica or no
 * quorum answers, memory or disk is full, slots move. The next call may succeed.
 */
const PASSING = new Set([
  'BUSY',
  'LOADING',
  'READONLY',
  'OOM',
  'MISCONF',
  'NOREPLICAS',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MOVED',
  'ASK',
]);

/** What is wrong with the address or its rights: it will not mend itself. */
const REFUSING = new Set(['NOAUTH', 'WRONGPASS', 'NOPERM', 'DENIED']);

/**
 * A failed call as an error of the table. Whatever is not a reply of Redis came from the connection (cut, time-out, not
 * there), so the outcome of the call is unknown; every call may be repeated.
 */
export function redisError(error: unknown): CarillonError {
  if (error instanceof CarillonError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const word = /^-?([A-Z]+)\b/.exec(message)?.[1] ?? '';
  if (REFUSING.has(word)) {
    return carillonError(
      'setup-refused',
      `Redis refuses the user or the command (${message}): mend its ACL`,
      {},
      error,
    );
  }
  const reply = error instanceof Error && error.name === 'ReplyError';
  if (!reply || PASSING.has(word)) return carillonError('unavailable', `Redis: ${message}`, {}, error);
  return carillonError('internal', `Redis: ${message}`, {}, error);
}
