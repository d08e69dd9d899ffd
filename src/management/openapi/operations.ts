import type { ErrorCode } from '../../core/errors.ts';
import { JOB_FIELDS, JOB_PATCH_SCHEMA, JOB_SCHEMA } from '../../core/form/job-schema.ts';
import { LIMITS } from '../../core/limits.ts';
import { JOB_LIST_QUERY, OPERATIONS_QUERY, type QuerySpec, TRIGGERS_QUERY } from '../queries.ts';
import { refTo } from './schemas.ts';

/** What `/openapi.json` says of a route beside its path, its summary and its JSON body. */
export interface Operation {
  query?: QuerySpec;
  headers?: readonly (keyof typeof REQUEST_HEADERS)[];
  /** Bodies by media type, where `application/json` is not all. */
  body?: Readonly<Record<string, object>>;
  /** Answers by status. */
  answers: Readonly<Record<number, Answer>>;
  /** Codes of the error table that belong to this route; those that every route may give are added. */
  problems?: readonly ErrorCode[];
}

interface Answer {
  description: string;
  /** Bodies by media type; none: the answer has no body. */
  content?: Readonly<Record<string, object>>;
  headers?: readonly (keyof typeof ANSWER_HEADERS)[];
}

export const REQUEST_HEADERS = {
  'if-match': 'Version that the job must have, as an ETag ("3"), or * for any',
  'if-none-match': '* only: create, do not replace',
  'idempotency-key': `Names the request, so that a repeat is known: 1 to ${LIMITS.requestKeyChars} letters, digits, "-", "_" or "."`,
} as const;

export const ANSWER_HEADERS = {
  etag: 'Version of the job or calendar, in quotes',
  location: 'Address of what was made or will be',
} as const;

const LINES = 'application/x-ndjson';
const json = (name: string) => ({ 'application/json': refTo(name) });
const ok = (name: string, description = 'As it is'): Operation['answers'] => ({
  200: { description, content: json(name) },
});

const NO_BODY: Answer = { description: 'Done' };
const CREATED: Answer = { description: 'Created', content: json('WrittenJob'), headers: ['etag', 'location'] };
const WRITTEN: Answer = {
  description: 'Applied, or nothing to change',
  content: json('WrittenJob'),
  headers: ['etag'],
};
const ACCEPTED: Answer = {
  description: 'The change is durable and was not applied in time; it will be',
  content: json('AcceptedJob'),
  headers: ['location'],
};

const OF_SCHEDULES = ['schedule-invalid', 'schedule-impossible', 'zone-unknown', 'calendar-unknown'] as const;
const OF_BODIES = ['request-too-large', 'media-type-unsupported'] as const;
const OF_CHANGES = ['too-many-requests', 'capacity-exhausted', ...OF_BODIES] as const;
const OF_JOBS = [...OF_CHANGES, 'cluster-not-found', 'job-not-found', 'state-conflict', 'version-mismatch'] as const;

const action: Operation = {
  headers: ['if-match'],
  answers: { 200: WRITTEN, 202: ACCEPTED },
  problems: OF_JOBS,
};
const jobs = '/v1/clusters/:cluster/jobs';

/** Every route by method and path; a route that is not here cannot be added (`document.ts`). */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  'GET /healthz': { answers: ok('Health') },
  'GET /readyz': {
    answers: { ...ok('Readiness'), 503: { description: 'Not ready', content: json('Readiness') } },
  },
  'GET /metrics': { answers: { 200: { description: 'Metrics', content: { 'text/plain': { type: 'string' } } } } },
  'GET /v1/installation': { answers: ok('Installation') },
  'GET /v1/clusters': { answers: ok('Clusters') },
  'GET /v1/clusters/:cluster': { answers: ok('Cluster'), problems: ['cluster-not-found'] },
  'POST /v1/clusters': {
    answers: { 201: { description: 'Created', content: json('Cluster'), headers: ['location'] } },
    problems: ['cluster-exists', 'delivery-unsupported', 'too-many-requests', ...OF_BODIES],
  },
  [`POST ${jobs}`]: {
    answers: { 200: WRITTEN, 201: CREATED, 202: ACCEPTED },
    problems: [...OF_CHANGES, ...OF_SCHEDULES, 'cluster-not-found', 'job-exists', 'state-conflict'],
  },
  [`GET ${jobs}`]: {
    query: JOB_LIST_QUERY,
    answers: ok('Jobs', 'A page'),
    problems: ['cluster-not-found', 'cursor-invalid'],
  },
  [`GET ${jobs}/:key`]: {
    answers: { 200: { description: 'The job', content: json('Job'), headers: ['etag'] } },
    problems: ['cluster-not-found', 'job-not-found'],
  },
  [`PUT ${jobs}/:key`]: {
    headers: ['if-match', 'if-none-match'],
    answers: { 200: WRITTEN, 201: CREATED, 202: ACCEPTED },
    problems: [...OF_JOBS, ...OF_SCHEDULES, 'job-exists'],
  },
  [`PATCH ${jobs}/:key`]: {
    headers: ['if-match'],
    body: { 'application/json': JOB_PATCH_SCHEMA, 'application/merge-patch+json': JOB_PATCH_SCHEMA },
    answers: { 200: WRITTEN, 202: ACCEPTED },
    problems: [...OF_JOBS, ...OF_SCHEDULES],
  },
  [`DELETE ${jobs}/:key`]: { headers: ['if-match'], answers: { 202: ACCEPTED, 204: NO_BODY }, problems: OF_JOBS },
  [`POST ${jobs}/:key/pause`]: action,
  [`POST ${jobs}/:key/resume`]: action,
  [`POST ${jobs}/:key/terminate`]: action,
  [`POST ${jobs}/:key/fire`]: { ...action, headers: ['if-match', 'idempotency-key'] },
  [`POST ${jobs}::bulk`]: {
    headers: ['idempotency-key'],
    body: {
      [LINES]: { type: 'string', description: `A job as JSON in each line: ${Object.keys(JOB_FIELDS).join(', ')}` },
      'application/json': { type: 'array', maxItems: LIMITS.bulkArrayItems, items: JOB_SCHEMA },
    },
    answers: {
      200: { description: 'One result an item of the array, in order', content: json('ItemResults') },
      202: { description: 'Every line is durable', content: json('Operation'), headers: ['location'] },
    },
    problems: [...OF_CHANGES, 'cluster-not-found', 'operation-conflict'],
  },
  'GET /v1/clusters/:cluster/operations': {
    query: OPERATIONS_QUERY,
    answers: ok('Operations', 'Newest first'),
    problems: ['cluster-not-found'],
  },
  'GET /v1/clusters/:cluster/operations/:key': {
    answers: ok('Operation'),
    problems: ['cluster-not-found', 'operation-not-found'],
  },
  'GET /v1/calendars': { answers: ok('Calendars') },
  'GET /v1/calendars/:name': {
    answers: { 200: { description: 'The calendar', content: json('Calendar'), headers: ['etag'] } },
    problems: ['calendar-not-found'],
  },
  'PUT /v1/calendars/:name': {
    headers: ['if-match'],
    answers: {
      200: { description: 'Replaced, or nothing to change', content: json('Calendar'), headers: ['etag'] },
      201: { description: 'Created', content: json('Calendar'), headers: ['etag', 'location'] },
    },
    problems: ['zone-unknown', 'version-mismatch', 'too-many-requests', ...OF_BODIES],
  },
  'DELETE /v1/calendars/:name': {
    headers: ['if-match'],
    answers: { 204: NO_BODY },
    problems: ['calendar-not-found', 'calendar-in-use', 'version-mismatch', ...OF_BODIES],
  },
  'POST /v1/preview': { answers: ok('Preview', 'In order'), problems: [...OF_SCHEDULES, ...OF_BODIES] },
  'GET /v1/clusters/:cluster/triggers': {
    query: TRIGGERS_QUERY,
    answers: {
      200: {
        description: 'Lines of JSON without end: first {session, topic, partitions}, then a line a trigger',
        content: { [LINES]: { type: 'string' } },
      },
    },
    problems: ['cluster-not-found', 'too-many-requests'],
  },
  'POST /v1/clusters/:cluster/triggers/commit': {
    answers: { 204: NO_BODY },
    problems: ['cluster-not-found', 'state-conflict', ...OF_BODIES],
  },
};
