import { CarillonError, carillonError, ERRORS, type ErrorCode } from '../core/errors.ts';
import { formField, formWords } from '../core/form/read.ts';
import { type Fault, FaultsError } from './validate.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** Problem details (RFC 9457) with a code of the error table. Never a stack, never a text of another library. */
export interface Problem {
  /** A URN that names the code: the table of codes is part of the documentation. */
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  /** Path of the fault in the request, such as `schedule.expression` or `[3].key`. */
  field?: string;
  token?: string;
  /** All faults, where there are several. */
  errors?: readonly Fault[];
}

export function problemOf(error: CarillonError): Problem {
  const { title, status } = ERRORS[error.code];
  return {
    type: `urn:carillon:error:${error.code}`,
    title,
    status,
    detail: formWords(error.detail),
    code: error.code,
    ...(error.field === undefined ? {} : { field: formField(error.field) || 'body' }),
    ...(error.token === undefined || error.token === '' ? {} : { token: error.token }),
    ...(error instanceof FaultsError && error.faults.length > 1 ? { errors: error.faults } : {}),
  };
}

/** What Fastify and Node refuse by themselves, in words of the table. */
const OF_FRAMEWORK: Readonly<Record<string, { code: ErrorCode; detail: string; field: string }>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'media-type-unsupported',
    detail: 'send application/json; application/x-ndjson for a bulk stream',
    field: 'content-type',
  },
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'request-too-large', detail: 'the body is larger than the limit', field: 'body' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'request-malformed',
    detail: 'the body is not as long as Content-Length says',
    field: 'content-length',
  },
  FST_ERR_BAD_URL: { code: 'request-malformed', detail: 'a percent escape in the URL is broken', field: 'url' },
  FST_ERR_MAX_PARAM_LENGTH: { code: 'request-invalid', detail: 'a part of the URL is too long', field: 'url' },
  FST_ERR_ASYNC_CONSTRAINT: { code: 'request-malformed', detail: 'the request cannot be routed', field: 'url' },
  ECONNRESET: { code: 'request-malformed', detail: 'the connection ended before the body did', field: 'body' },
  ERR_STREAM_PREMATURE_CLOSE: {
    code: 'request-malformed',
    detail: 'the connection ended before the body did',
    field: 'body',
  },
};

/** Any thrown value as an error of the table; null: a fault of ours, which is logged and answered as `internal`. */
export function knownError(error: unknown): CarillonError | null {
  if (error instanceof CarillonError) return error;
  const code = (error as { code?: unknown } | null)?.code;
  const known = typeof code === 'string' ? OF_FRAMEWORK[code] : undefined;
  if (known !== undefined) return carillonError(known.code, known.detail, { field: known.field });
  return isRefusal(error)
    ? carillonError('request-malformed', 'the request cannot be read', { field: 'request' })
    : null;
}

/** Refused by Fastify for a reason that has no words above: a fault of the request all the same. */
function isRefusal(error: unknown): boolean {
  const { code, statusCode } = error as { code?: unknown; statusCode?: unknown };
  return String(code).startsWith('FST_') && Number(statusCode) >= 400 && Number(statusCode) < 500;
}

export const INTERNAL: Problem = problemOf(
  carillonError('internal', 'the fault is in the log of the server; the request may be repeated'),
);
