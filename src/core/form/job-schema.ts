import { LIMITS } from '../limits.ts';

/**
 * JSON schemas of what users write: the one list of fields for the API, bulk lines, the SDK's types and `/openapi.json`.
 * They say which members there are and of which type; what an expression, a time or a zone means is read afterwards.
 */
const time = { type: 'string', description: 'RFC 3339 with an offset, such as 2027-01-31T09:00:00Z' } as const;
const whole = (minimum: number, maximum: number) => ({ type: 'integer', minimum, maximum }) as const;
const name = { type: 'string', minLength: 1, maxLength: LIMITS.jobKeyBytes } as const;

const CRON = {
  expression: {
    type: 'string',
    description: '5 fields, 6 with seconds first, 7 with the year last, or @daily and its kin',
  },
  zone: { type: 'string', minLength: 1, description: 'IANA name, Z or +HH:MM; absent means UTC' },
  gap: { enum: ['fire-after', 'skip'] },
  overlap: { enum: ['auto', 'first', 'both'] },
} as const;
const RATE = { everyMs: whole(LIMITS.ratePeriodMinMs, LIMITS.ratePeriodMaxMs), anchor: time } as const;
const ONCE = { at: time } as const;
const DELAY = { delayMs: whole(0, LIMITS.ratePeriodMaxMs) } as const;

const variant = (kind: string, properties: object, required: string[]) => ({
  type: 'object',
  additionalProperties: false,
  required: ['kind', ...required],
  properties: { kind: { const: kind }, ...properties },
});

const schedule = {
  type: 'object',
  required: ['kind'],
  discriminator: { propertyName: 'kind' },
  oneOf: [
    variant('cron', CRON, ['expression']),
    variant('rate', RATE, ['everyMs']),
    variant('once', ONCE, ['at']),
    variant('delay', DELAY, ['delayMs']),
  ],
};

const misfire = {
  mode: { enum: ['once', 'skip', 'all'] },
  maxAgeMs: whole(1, LIMITS.ratePeriodMaxMs),
  maxNumber: whole(1, LIMITS.maxCount),
  maxPerSecond: whole(1, 1_000_000),
} as const;

const timing = {
  start: time,
  end: time,
  maxCount: whole(1, LIMITS.maxCount),
  spreadMs: whole(1, LIMITS.spreadMaxMs),
  calendars: { type: 'array', maxItems: LIMITS.calendarsPerJob, uniqueItems: true, items: name },
} as const;

const labelName = '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$';
const texts = {
  payload: { description: 'Any JSON; its text is the value of every trigger, byte for byte' },
  contentType: {
    type: 'string',
    maxLength: LIMITS.contentTypeBytes,
    pattern: "^[A-Za-z0-9!#$&^_.+'*-]+/[A-Za-z0-9!#$&^_.+'*-]+(; ?[A-Za-z0-9!#$&^_.+'*-]+=[A-Za-z0-9!#$&^_.+'*-]+)*$",
  },
  description: { type: 'string', maxLength: LIMITS.descriptionBytes },
} as const;
const labels = (value: object) => ({
  type: 'object',
  maxProperties: LIMITS.labelsPerJob,
  propertyNames: { pattern: labelName, maxLength: LIMITS.labelNameBytes },
  additionalProperties: value,
});
const labelValue = { type: 'string', maxLength: LIMITS.labelValueBytes };
const state = { enum: ['enabled', 'paused'] } as const;

const object = (properties: object, required: string[] = []) => ({
  type: 'object',
  additionalProperties: false,
  required,
  properties,
});

/** Fields of a job in the order in which they are shown. */
export const JOB_FIELDS = {
  key: { ...name, description: '1 to 255 bytes of UTF-8; not "." or ".."' },
  schedule,
  ...timing,
  misfire: object(misfire, ['mode']),
  ...texts,
  labels: labels(labelValue),
  state,
};

/** A new job, with its key in the body. */
export const JOB_SCHEMA = object(JOB_FIELDS, ['key', 'schedule']);
/** A job whose key stands in the URL; a key in the body must be the same. */
export const JOB_PUT_SCHEMA = object(JOB_FIELDS, ['schedule']);

/** The same field, or null to take it away. */
const orNull = (schema: object) => ({ anyOf: [schema, { type: 'null' }] });
const eachOrNull = (properties: object) =>
  Object.fromEntries(Object.entries(properties).map(([field, schema]) => [field, orNull(schema)]));

export const JOB_PATCH_SCHEMA = object({
  schedule: object({
    kind: { enum: ['cron', 'rate', 'once', 'delay'] },
    ...eachOrNull({ ...CRON, ...RATE, ...ONCE, ...DELAY }),
  }),
  ...eachOrNull(timing),
  misfire: orNull(object(eachOrNull(misfire))),
  payload: texts.payload,
  contentType: orNull(texts.contentType),
  description: orNull(texts.description),
  labels: orNull(labels(orNull(labelValue))),
  state,
});

export const PREVIEW_SCHEMA = object(
  { schedule, ...timing, key: name, after: time, count: whole(1, LIMITS.previewCount) },
  ['schedule'],
);

/** What `JobView` has beside the form: answered, never taken. */
export const READ_ONLY_FIELDS = [
  'cluster',
  'version',
  'stateReason',
  'nextFireAt',
  'createdAt',
  'updatedAt',
  'shard',
  'number',
] as const;

const CLUSTER_NAME = `^[A-Za-z0-9_-][A-Za-z0-9._-]{0,${LIMITS.clusterNameBytes - 1}}$`;

export const CLUSTER_SCHEMA = object(
  {
    name: { type: 'string', pattern: CLUSTER_NAME, description: 'Letters, digits, ".", "_" and "-"; at most 63' },
    topic: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,200}$' },
    partitions: whole(1, 1_024),
    envelope: { enum: ['cloudevents', 'compact'] },
    delivery: { enum: ['at-least-once', 'exactly-once'] },
  },
  ['name'],
);

const fromTo = (pattern: string) =>
  object({ from: { type: 'string', pattern }, to: { type: 'string', pattern } }, ['from', 'to']);
const list = (items: object) => ({ type: 'array', maxItems: LIMITS.calendarEntries, items });
const DATE = '^[0-9]{4}-[0-9]{2}-[0-9]{2}$';

export const CALENDAR_SCHEMA = object({
  zone: { type: 'string', minLength: 1 },
  dates: list({ type: 'string', pattern: DATE }),
  yearly: list({ type: 'string', pattern: '^[0-9]{2}-[0-9]{2}$' }),
  ranges: list(fromTo(DATE)),
  weekdays: { type: 'array', maxItems: 7, items: { enum: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] } },
  times: list(fromTo('^[0-9]{2}:[0-9]{2}(:[0-9]{2})?$')),
});
