import { ERRORS, type ErrorCode } from '../core/errors.ts';

/** One fault of a request that has several. */
export interface ApiFault {
  field: string;
  detail: string;
}

/**
 * An answer of the API that is no success (RFC 9457 problem details), or no answer at all.
 *
 * `code` is one of the error table, or `network` (no connection, or it broke), `timeout` (no answer in time) or `accepted`
 * (status 202: the change is durable and will be applied, but its result did not come in time; `location` tells where).
 */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ErrorCode | 'network' | 'timeout' | 'accepted' | (string & {});
  /** HTTP status; 0: there was no answer. */
  readonly status: number;
  readonly detail: string;
  /** Path of the fault in the request, such as `schedule.expression`. */
  readonly field: string | undefined;
  readonly token: string | undefined;
  readonly faults: readonly ApiFault[];
  readonly location: string | undefined;
  /** Requests that were made for this answer, from 1. */
  tries = 1;

  constructor(fields: Pick<ApiError, 'code' | 'status' | 'detail'> & Partial<ApiErrorPlace>, title?: string) {
    super(title === undefined ? fields.detail : `${title}: ${fields.detail}`, { cause: fields.cause });
    this.code = fields.code;
    this.status = fields.status;
    this.detail = fields.detail;
    this.field = fields.field;
    this.token = fields.token;
    this.faults = fields.faults ?? [];
    this.location = fields.location;
  }

  /** Whether the same request may pass later without a change. */
  get retryable(): boolean {
    if (Object.hasOwn(ERRORS, this.code)) return ERRORS[this.code as ErrorCode].retryable;
    return this.status === 0 || this.status === 202 || this.status === 429 || this.status >= 500;
  }
}

interface ApiErrorPlace {
  field: string | undefined;
  token: string | undefined;
  faults: readonly ApiFault[];
  location: string | undefined;
  cause: unknown;
}

/** The error that an answer tells. A body that is no problem details (a proxy's page) is told by its status alone. */
export async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  const problem = problemIn(text);
  const { status } = response;
  if (problem === null) {
    return new ApiError({
      code: status === 401 ? 'unauthorized' : 'internal',
      status,
      detail: `HTTP status ${status}`,
    });
  }
  return new ApiError(
    {
      code: textIn(problem, 'code') ?? 'internal',
      status,
      detail: textIn(problem, 'detail') ?? `HTTP status ${status}`,
      field: textIn(problem, 'field'),
      token: textIn(problem, 'token'),
      faults: Array.isArray(problem['errors']) ? (problem['errors'] as ApiFault[]) : [],
    },
    textIn(problem, 'title'),
  );
}

function problemIn(text: string): Record<string, unknown> | null {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null && 'code' in parsed ? { ...parsed } : null;
  } catch {
    return null;
  }
}

function textIn(problem: Record<string, unknown>, member: string): string | undefined {
  const value = problem[member];
  return typeof value === 'string' ? value : undefined;
}
