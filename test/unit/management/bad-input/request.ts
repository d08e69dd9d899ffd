/** One malformed request and its answer. */
export interface BadRequest {
  name: string;
  method: string;
  url: string;
  /** Text and bytes are sent as they are, all else as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
  status: number;
  /** Code and field of the answer; without a code: `request-invalid`. */
  code?: string;
  field: string | RegExp;
}

export const GOOD = { schedule: { kind: 'cron', expression: '0 9 * * *' }, labels: { a: 'b' } };
export const WEEKEND = { weekdays: ['sat', 'sun'] };

export const JOBS = '/v1/clusters/default/jobs';
export const THERE = `${JOBS}/there`;
export const BULK = `${JOBS}:bulk`;
export const cron = (expression: unknown, more: object = {}) => ({
  key: 'bad',
  schedule: { kind: 'cron', expression, ...more },
});
export const job = (fields: object) => ({ key: 'bad', ...GOOD, ...fields });

export const create = (
  name: string,
  body: unknown,
  field: string | RegExp,
  more: Partial<BadRequest> = {},
): BadRequest => ({
  name: `create: ${name}`,
  method: 'POST',
  url: JOBS,
  body,
  status: 400,
  field,
  ...more,
});
export const patch = (
  name: string,
  body: unknown,
  field: string | RegExp,
  more: Partial<BadRequest> = {},
): BadRequest => ({
  ...create(name, body, field, more),
  name: `patch: ${name}`,
  method: 'PATCH',
  url: THERE,
});
export const query = (text: string, field: string, code = 'request-invalid'): BadRequest => ({
  name: `list: ${text}`,
  method: 'GET',
  url: `${JOBS}?${text}`,
  status: 400,
  code,
  field,
});
