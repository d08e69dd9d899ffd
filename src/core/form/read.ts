import { carillonError } from '../errors.ts';
import type { JobDefinition } from '../job.ts';
import { LIMITS } from '../limits.ts';
import type { DefinitionPatch } from '../messages.ts';
import { parseInstant } from '../schedule/iso.ts';
import type { Schedule, ScheduleBounds } from '../schedule/types.ts';
import type { JobForm, JobPatch, ScheduleForm } from './job-form.ts';

/** What was read of a request: `payload` is the text of its JSON, not its value. */
export type Read<T> = Omit<T, 'payload'> & { payload?: string };

/** Payload and media type of a job that names none. */
const NO_PAYLOAD = 'null';
const JSON_TYPE = 'application/json';

/**
 * The definition that a form says, with times in UTC ms. The form has passed its schema. `nowMs` is the instant of the
 * request, which a delay is counted from.
 *
 * @throws CarillonError `request-invalid` with the form's field
 */
export function readDefinition(form: Read<Omit<JobForm, 'key'>>, nowMs: number): JobDefinition {
  const { misfire, payload, contentType, description, labels } = form;
  checkPayload(payload);
  checkBytes('description', description, LIMITS.descriptionBytes);
  checkLabels(labels);
  return {
    schedule: readSchedule(form.schedule, nowMs),
    bounds: readBounds(form),
    misfire: misfire ?? { mode: 'once' },
    payload: payload ?? NO_PAYLOAD,
    contentType: contentType ?? JSON_TYPE,
    ...(description === undefined ? {} : { description }),
    ...(labels === undefined || Object.keys(labels).length === 0 ? {} : { labels }),
  };
}

export function readSchedule(form: ScheduleForm, nowMs: number): Schedule {
  switch (form.kind) {
    case 'cron':
      return form;
    case 'rate': {
      const { kind, everyMs, anchor } = form;
      return anchor === undefined
        ? { kind, everyMs }
        : { kind, everyMs, anchorMs: parseInstant(anchor, 'schedule.anchor') };
    }
    case 'once':
      return { kind: 'once', atMs: parseInstant(form.at, 'schedule.at') };
    case 'delay':
      return { kind: 'once', atMs: delayedMs(nowMs, form.delayMs) };
  }
}

export function readBounds(
  form: Pick<JobForm, 'start' | 'end' | 'maxCount' | 'spreadMs' | 'calendars'>,
): ScheduleBounds {
  const { start, end, maxCount, spreadMs, calendars } = form;
  return {
    ...(start === undefined ? {} : { startMs: parseInstant(start, 'start') }),
    ...(end === undefined ? {} : { endMs: parseInstant(end, 'end') }),
    ...(maxCount === undefined ? {} : { maxCount }),
    ...(spreadMs === undefined ? {} : { spreadMs }),
    ...(calendars === undefined || calendars.length === 0 ? {} : { calendars }),
  };
}

/** The patch of a definition that a patch of a form says. */
export function readPatch(form: Read<JobPatch>, nowMs: number): DefinitionPatch {
  const { schedule, misfire, payload, contentType, description, labels, maxCount, spreadMs, calendars } = form;
  checkPayload(payload);
  checkBytes('description', description, LIMITS.descriptionBytes);
  checkLabels(labels);
  const bounds = given({
    startMs: instantOrNull(form.start, 'start'),
    endMs: instantOrNull(form.end, 'end'),
    maxCount,
    spreadMs,
    calendars: calendars?.length === 0 ? null : calendars,
  });
  return given({
    schedule: schedule === undefined ? undefined : patchSchedule(schedule, nowMs),
    bounds: Object.keys(bounds).length === 0 ? undefined : bounds,
    misfire,
    payload,
    contentType,
    description,
    labels,
  }) as DefinitionPatch;
}

function patchSchedule(form: NonNullable<JobPatch['schedule']>, nowMs: number): Record<string, unknown> {
  const { anchor, at, delayMs, kind, ...rest } = form;
  if (kind === 'delay') return patchDelay(form, nowMs);
  if (delayMs !== undefined) {
    throw carillonError('request-invalid', 'schedule.delayMs goes with kind "delay"', { field: 'schedule.delayMs' });
  }
  return given({
    ...rest,
    kind,
    anchorMs: instantOrNull(anchor, 'schedule.anchor'),
    atMs: instantOrNull(at, 'schedule.at'),
  });
}

/** A delay is no kind that is stored, so there is nothing that a part of one could be merged with: it comes whole. */
function patchDelay({ kind: _, delayMs, ...others }: NonNullable<JobPatch['schedule']>, nowMs: number) {
  const [other] = Object.keys(others);
  if (other !== undefined) {
    throw carillonError('request-invalid', `a schedule of kind "delay" has no ${other}`, {
      field: `schedule.${other}`,
      token: other,
    });
  }
  if (typeof delayMs !== 'number') {
    throw carillonError('request-invalid', 'schedule.delayMs is missing', { field: 'schedule.delayMs' });
  }
  return { kind: 'once', atMs: delayedMs(nowMs, delayMs) };
}

/** A new version has the times after its cut, the instant of the request, so that at once is the next ms. */
function delayedMs(nowMs: number, delayMs: number): number {
  return nowMs + Math.max(1, delayMs);
}

function instantOrNull(text: string | null | undefined, field: string): number | null | undefined {
  return typeof text === 'string' ? parseInstant(text, field) : text;
}

/** Without the members that are undefined. */
function given(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

function checkPayload(payload: string | undefined): void {
  // A UTF-16 unit has at most 3 bytes of UTF-8, and one that is escaped has 2; so most payloads need no closer look.
  if (payload === undefined || payload.length * 3 + 2 <= LIMITS.payloadBytes) return;
  if (byteLength(JSON.stringify(payload)) <= LIMITS.payloadBytes) return;
  throw carillonError(
    'request-too-large',
    `the payload has more than ${LIMITS.payloadBytes} bytes, its quotes and backslashes counted twice`,
    { field: 'payload' },
  );
}

function checkLabels(labels: Record<string, string | null> | null | undefined): void {
  for (const [label, value] of Object.entries(labels ?? {})) {
    checkBytes(`labels.${label}`, value, LIMITS.labelValueBytes);
  }
}

function checkBytes(field: string, text: string | null | undefined, most: number): void {
  if (text === undefined || text === null || byteLength(text) <= most) return;
  throw carillonError('request-invalid', `${field} has more than ${most} bytes of UTF-8`, { field });
}

const encoder = new TextEncoder();

/** Bytes of UTF-8; a text of n characters has at most 3 n. */
function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** C0 and C1 control characters and DEL: no key, name or header may hold them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is what it is for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/**
 * Checks a job key: 1 to 255 bytes of UTF-8, no control characters, no half of a surrogate pair, and not `.` or `..`, which
 * URL parsers take out of a path even when they are percent-encoded.
 */
export function checkKey(key: string, field = 'key'): void {
  const refuse = (reason: string): never => {
    throw carillonError('request-invalid', `the job key ${reason}`, { field, token: key.toWellFormed().slice(0, 40) });
  };
  if (key === '') refuse('is empty');
  if (key === '.' || key === '..') refuse('is "." or "..", which URLs swallow');
  if (!key.isWellFormed()) refuse('holds half of a surrogate pair');
  if (CONTROL.test(key)) refuse('holds a control character');
  if (key.length > LIMITS.jobKeyBytes || byteLength(key) > LIMITS.jobKeyBytes) {
    refuse(`has more than ${LIMITS.jobKeyBytes} bytes of UTF-8`);
  }
}

/** The words of a schedule and its bounds inside Carillon, as the form calls them: `bounds.startMs` is `start`. */
export function formField(field: string): string {
  return field
    .replace(/^bounds\./, '')
    .replace(/^(start|end)Ms$/, '$1')
    .replace(/^schedule\.(anchor|at)Ms$/, 'schedule.$1');
}

/** The same inside a sentence. */
export function formWords(detail: string): string {
  return detail
    .replace(/\bbounds\.(\w+)/g, (_, field: string) => formField(field))
    .replace(/\b(schedule\.(?:anchor|at))Ms\b/g, '$1');
}
