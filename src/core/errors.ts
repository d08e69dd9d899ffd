/**
 * The table of every error that Carillon gives on purpose: code, HTTP status, title, whether the same request may be
 * repeated later without change. `docs` for users are made of this table (`src/DESIGN.md`, "Errors"), and a test holds the
 * two together. Errors that are not in it are faults of ours and answered as `internal`.
 */
export const ERRORS = {
  // Input from outside: the request is wrong and stays wrong.
  'request-malformed': { status: 400, title: 'The request is not well-formed', retryable: false },
  'request-invalid': { status: 400, title: 'A field of the request is not valid', retryable: false },
  'request-too-large': { status: 413, title: 'The request is larger than the limit', retryable: false },
  'media-type-unsupported': { status: 415, title: 'The media type of the request is not supported', retryable: false },
  'schedule-invalid': { status: 400, title: 'The schedule cannot be read', retryable: false },
  'schedule-impossible': { status: 400, title: 'The schedule has no occurrence', retryable: false },
  'zone-unknown': { status: 400, title: 'The time zone is not known', retryable: false },
  'calendar-unknown': { status: 400, title: 'The exclusion calendar is not known', retryable: false },
  'cursor-invalid': { status: 400, title: 'The paging cursor is not valid', retryable: false },
  'delivery-unsupported': { status: 400, title: 'This delivery is not available here', retryable: false },
  // Who is asking.
  unauthorized: { status: 401, title: 'The request has no valid key', retryable: false },
  // What is asked for.
  'route-not-found': { status: 404, title: 'There is no such route', retryable: false },
  'job-not-found': { status: 404, title: 'There is no such job', retryable: false },
  'cluster-not-found': { status: 404, title: 'There is no such logical cluster', retryable: false },
  'calendar-not-found': { status: 404, title: 'There is no such calendar', retryable: false },
  'operation-not-found': { status: 404, title: 'There is no such operation', retryable: false },
  'method-not-allowed': { status: 405, title: 'The route does not take this method', retryable: false },
  'job-exists': { status: 409, title: 'A job with this key exists already', retryable: false },
  'cluster-exists': { status: 409, title: 'A logical cluster with this name exists already', retryable: false },
  'state-conflict': { status: 409, title: 'The state of the job does not allow this', retryable: false },
  'operation-conflict': { status: 409, title: 'The same key was used with other content', retryable: false },
  'line-repeated': { status: 409, title: 'The same job key stands earlier in the same request', retryable: false },
  'calendar-in-use': { status: 409, title: 'Jobs still use this calendar', retryable: false },
  'version-mismatch': { status: 412, title: 'The job has another version than If-Match names', retryable: false },
  // Limits and states of the installation: the same request may pass later.
  'too-many-requests': { status: 429, title: 'A bound of this installation is reached', retryable: true },
  'capacity-exhausted': { status: 503, title: 'No shard has a free place', retryable: true },
  unavailable: { status: 503, title: 'A server that is needed does not answer', retryable: true },
  internal: { status: 500, title: 'A fault in Carillon', retryable: true },
  // Inside: refusals between the parts of one installation.
  'lane-fenced': { status: 500, title: 'Another owner has taken this transactional id', retryable: false },
  'epoch-stale': { status: 500, title: 'A newer owner holds this slot', retryable: false },
  'horizon-moved': { status: 500, title: 'The horizon of a shard is not where its owner left it', retryable: false },
  'topic-unknown': { status: 500, title: 'The topic does not exist', retryable: true },
  'record-too-large': { status: 500, title: 'A record is larger than its topic allows', retryable: false },
  'offset-unknown': { status: 500, title: 'Records from this offset on are not kept any more', retryable: false },
  // At start: what is wrong with the set-up, and how to mend it, is in the detail.
  'setup-refused': { status: 500, title: 'This set-up would break the promise and is refused', retryable: false },
} as const;

export type ErrorCode = keyof typeof ERRORS;

/** Characters of an offending part that are shown: it comes from outside and may have any length. */
const TOKEN_CHARS = 80;

/** Where in a request the fault is: `field` is a JSON pointer-like path (`schedule.expression`), `token` the offending part. */
export interface ErrorPlace {
  field?: string;
  token?: string;
}

/** An error of the table. `message` is the title with the detail that names the fault and the mend. */
export class CarillonError extends Error {
  override readonly name = 'CarillonError';
  readonly code: ErrorCode;
  readonly detail: string;
  readonly field: string | undefined;
  readonly token: string | undefined;

  constructor(code: ErrorCode, detail: string, place: ErrorPlace = {}, cause?: unknown) {
    super(`${ERRORS[code].title}: ${detail}`, cause === undefined ? undefined : { cause });
    this.code = code;
    this.detail = detail;
    this.field = place.field;
    this.token = place.token?.slice(0, TOKEN_CHARS).toWellFormed();
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }
}

export function carillonError(code: ErrorCode, detail: string, place?: ErrorPlace, cause?: unknown): CarillonError {
  return new CarillonError(code, detail, place, cause);
}

/** Whether an unknown thrown value is an error of the table with this code. */
export function isCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof CarillonError && error.code === code;
}
