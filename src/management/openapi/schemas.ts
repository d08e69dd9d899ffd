import { ERRORS } from '../../core/errors.ts';
import { CALENDAR_SCHEMA, JOB_FIELDS } from '../../core/form/job-schema.ts';

/**
 * JSON schemas of what is answered, by the name that they have in `/openapi.json`. They describe answers for people and
 * generators; nothing is filtered by them. What users write is described in `core/form/job-schema.ts`.
 */
const text = { type: 'string' } as const;
const count = { type: 'integer', minimum: 0 } as const;
const instant = { type: 'string', format: 'date-time' } as const;
const instantOrNull = { type: ['string', 'null'], format: 'date-time' } as const;
const list = (items: object) => ({ type: 'array', items });
export const refTo = (name: string) => ({ $ref: `${name}#` });

const object = (properties: Record<string, object>, optional: readonly string[] = []) => ({
  type: 'object',
  required: Object.keys(properties).filter((field) => !optional.includes(field)),
  properties,
});

const { state: _, schedule, ...JOB_TEXTS } = JOB_FIELDS;
const JOB_STATE = { enum: ['enabled', 'paused', 'finished', 'terminated', 'error'] };
const OPTIONAL = ['start', 'end', 'maxCount', 'spreadMs', 'calendars', 'description', 'labels', 'stateReason'];

const JOB = {
  cluster: text,
  ...JOB_TEXTS,
  schedule,
  version: { type: 'integer', minimum: 1, description: 'Counts every change; the ETag' },
  state: JOB_STATE,
  stateReason: { ...text, description: 'Why the job is in the error state' },
  nextFireAt: { ...instantOrNull, description: 'Next effective time; null: none, or the job is not enabled' },
  createdAt: instant,
  updatedAt: instant,
  shard: count,
  number: count,
};

const problemMember = { field: text, detail: text };
const counts = object({ created: count, updated: count, unchanged: count, failed: count });
const lineError = object({ line: count, jobKey: text, code: text, detail: text, field: text }, ['jobKey', 'field']);

export const ANSWERS: Readonly<Record<string, object>> = {
  Problem: {
    ...object(
      {
        type: { ...text, description: 'urn:carillon:error:CODE' },
        title: text,
        status: { type: 'integer' },
        detail: text,
        code: { enum: Object.keys(ERRORS) },
        field: { ...text, description: 'Path of the fault in the request' },
        token: { ...text, description: 'The part that is wrong, cut' },
        errors: { ...list(object(problemMember)), description: 'All faults, where there are several' },
      },
      ['field', 'token', 'errors'],
    ),
    description: 'Problem details (RFC 9457)',
  },
  Job: object(JOB, OPTIONAL),
  WrittenJob: {
    description:
      'The job as it is after the change. A job that somebody else deleted meanwhile has only the first fields',
    ...object(
      {
        result: { enum: ['created', 'updated', 'unchanged', 'fired'] },
        id: { ...text, description: 'Execution id of a run by hand' },
        ...JOB,
      },
      ['id', ...Object.keys(JOB).filter((field) => !['cluster', 'key', 'version', 'state'].includes(field))],
    ),
  },
  AcceptedJob: object({ result: { const: 'accepted' }, cluster: text, key: text }),
  Jobs: object({
    jobs: list(refTo('Job')),
    next: { type: ['string', 'null'], description: 'Cursor of the next page; null: this was the last' },
  }),
  ItemResults: list({
    anyOf: [
      object({ key: text, result: { enum: ['created', 'updated', 'unchanged'] }, version: count }),
      object({ key: text, result: { const: 'accepted' } }),
      object({ key: { type: ['string', 'null'] }, result: { const: 'error' }, code: text, detail: text, field: text }, [
        'field',
      ]),
    ],
  }),
  Operation: object({
    cluster: text,
    key: text,
    state: { enum: ['receiving', 'accepted', 'done'], description: 'done: every line has its result' },
    startedAt: instant,
    acceptedAt: instantOrNull,
    lines: count,
    counts,
    errors: list(lineError),
  }),
  Operations: object({ operations: list(refTo('Operation')) }),
  Cluster: object(
    {
      name: text,
      topic: text,
      partitions: count,
      envelope: { enum: ['cloudevents', 'compact'] },
      delivery: { enum: ['at-least-once', 'exactly-once'] },
      createdAt: instant,
      jobs: { type: 'object', additionalProperties: count, description: 'Number of jobs by state' },
    },
    ['jobs'],
  ),
  Clusters: object({ clusters: list(refTo('Cluster')) }),
  Calendar: object(
    {
      name: text,
      version: count,
      definition: CALENDAR_SCHEMA,
      recomputed: { ...count, description: 'Jobs that were timed anew' },
    },
    ['recomputed'],
  ),
  Calendars: object({ calendars: list(refTo('Calendar')) }),
  Preview: object({ occurrences: list(object({ nominal: instant, effective: instant })) }),
  Installation: object({
    id: text,
    version: text,
    mode: { enum: ['embedded', 'cluster'] },
    deliveries: list(text),
    dataVersion: count,
    zoneDataVersion: { ...text, description: 'Release of the time zone data in force' },
    slotsPerSet: count,
    lanesPerSlot: count,
    changesPartitions: count,
  }),
  Health: object({ status: { const: 'ok' } }),
  Readiness: object({
    status: { enum: ['ok', 'not ready'] },
    checks: { type: 'object', additionalProperties: { enum: ['ok', 'failed'] } },
  }),
};
