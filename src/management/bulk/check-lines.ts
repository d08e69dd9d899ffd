import { carillonError } from '../../core/errors.ts';
import type { JobForm } from '../../core/form/job-form.ts';
import { JOB_SCHEMA } from '../../core/form/job-schema.ts';
import { checkKey, type Read, readDefinition } from '../../core/form/read.ts';
import { LIMITS } from '../../core/limits.ts';
import { type Change, changeKey } from '../../core/messages.ts';
import { partitionOf } from '../../core/murmur2.ts';
import { Calendars } from '../../engine/change/calendars.ts';
import { checkDefinition } from '../../engine/change/check.ts';
import type { StoredCalendar } from '../../ports/catalog-store.ts';
import type { OperationError } from '../../ports/operation-store.ts';
import { readJson, utf8Text } from '../json-source.ts';
import { INTERNAL, knownError, problemOf } from '../problem.ts';
import { checkBy } from '../validate.ts';

/** Lines for a thread. */
export interface LinesTask {
  bytes: Uint8Array;
  firstLine: number;
  cluster: string;
  operation: string;
  atMs: number;
  changesPartitions: number;
  calendars: readonly StoredCalendar[];
}

/** What became of them: changes one behind the other in `packed`, and the lines that were refused. */
export interface LinesResult {
  packed: Uint8Array;
  /** Per change: the offset behind its last byte in `packed`, its partition and its key. */
  ends: number[];
  partitions: number[];
  keys: string[];
  errors: OperationError[];
}

const checkJob = checkBy(JOB_SCHEMA);
const encoder = new TextEncoder();

/** Reads and checks lines, each by itself: a bad line is an error of its own and stops nothing. */
export function checkLines(task: LinesTask): LinesResult {
  const calendars = new Calendars(task.calendars);
  const result: LinesResult = { packed: new Uint8Array(), ends: [], partitions: [], keys: [], errors: [] };
  const texts: string[] = [];
  let end = 0;
  for (const [index, bytes] of linesOf(task.bytes).entries()) {
    const line = task.firstLine + index;
    try {
      const change = changeOf(bytes, line, task, calendars);
      const name = changeKey(change.cluster, change.key);
      const text = JSON.stringify(change);
      texts.push(text);
      end += Buffer.byteLength(text);
      result.ends.push(end);
      result.keys.push(name);
      result.partitions.push(partitionOf(name, task.changesPartitions));
    } catch (error) {
      result.errors.push(lineError(error, line, bytes));
    }
  }
  result.packed = encoder.encode(texts.join(''));
  return result;
}

function changeOf(bytes: Uint8Array, line: number, task: LinesTask, calendars: Calendars): Change {
  const { cluster, operation, atMs } = task;
  if (bytes.length > LIMITS.bodyBytes) {
    throw carillonError('request-too-large', `the line has more than ${LIMITS.bodyBytes} bytes`);
  }
  const { definition, key, paused } = readJob(readJson(utf8Text(bytes)), atMs, calendars);
  return {
    v: 1,
    id: `${operation}/${line}`,
    cluster,
    key,
    atMs,
    action: { kind: 'put', definition, ...(paused === undefined ? {} : { paused }) },
    operation: { key: operation, line },
  };
}

/** A job of a line or of an array: read, checked, and its first occurrence proved. */
export function readJob(value: unknown, atMs: number, calendars: Calendars) {
  checkJob(value);
  const { key, state, ...form } = value as Read<JobForm>;
  checkKey(key);
  const definition = readDefinition(form, atMs);
  // Whether a job that has no occurrence any more may be saved is known to the applier, who has the stored one.
  checkDefinition(definition, key, atMs, calendars);
  return { key, definition, paused: state === undefined ? undefined : state === 'paused' };
}

function lineError(error: unknown, line: number, bytes: Uint8Array): OperationError {
  const known = knownError(error);
  const { code, detail, field } = known === null ? INTERNAL : problemOf(known);
  const jobKey = keyIn(bytes);
  return {
    line,
    ...(jobKey === undefined ? {} : { jobKey }),
    code,
    detail: detail.slice(0, 500),
    ...(field === undefined ? {} : { field }),
  };
}

/** The key of a refused line, if it has a readable one, to find it again. */
function keyIn(bytes: Uint8Array): string | undefined {
  try {
    const { key } = readJson(utf8Text(bytes)) as { key?: unknown };
    return typeof key === 'string' ? key.slice(0, LIMITS.jobKeyBytes) : undefined;
  } catch {
    return undefined;
  }
}

function linesOf(bytes: Uint8Array): Uint8Array[] {
  const lines: Uint8Array[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(10, start);
    lines.push(bytes.subarray(start, end));
    start = end + 1;
  }
  return lines;
}
