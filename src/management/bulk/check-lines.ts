import { CarillonError, carillonError } from '../../core/errors.ts';
import type { JobForm } from '../../core/form/job-form.ts';
import { JOB_SCHEMA } from '../../core/form/job-schema.ts';
import { checkKey, type Read, readDefinition } from '../../core/form/read.ts';
import { LIMITS } from '../../core/limits.ts';
import { changeId, fitsLines, LinesWriter } from '../../core/lines.ts';
import { changeKey, encodeMessage } from '../../core/messages.ts';
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

/** A message for the changes topic. */
export interface LinesMessage {
  partition: number;
  key: string;
  value: Uint8Array;
}

/** What became of them: messages in the order of the lines of each job, and the lines that were refused. */
export interface LinesResult {
  messages: LinesMessage[];
  errors: OperationError[];
}

/** Bytes of lines after which a message is closed: far below what a topic takes, with the largest line behind it. */
const MESSAGE_BYTES = 64 * 1024;
const checkJob = checkBy(JOB_SCHEMA);
/** By partition, used again for each block: their memory is larger than a block. */
const writers: LinesWriter[] = [];

/** Reads and checks lines, each by itself: a bad line is an error of its own and stops nothing. */
export function checkLines(task: LinesTask): LinesResult {
  const calendars = new Calendars(task.calendars);
  const messages = new Messages(task);
  const errors: OperationError[] = [];
  for (const [index, bytes] of linesOf(task.bytes).entries()) {
    const line = task.firstLine + index;
    try {
      if (bytes.length > LIMITS.bodyBytes) {
        throw carillonError('request-too-large', `the line has more than ${LIMITS.bodyBytes} bytes`);
      }
      messages.add(line, readJob(readJson(utf8Text(bytes)), task.atMs, calendars));
    } catch (error) {
      errors.push(lineError(error, line, bytes));
    }
  }
  return { messages: messages.take(), errors };
}

/**
 * Lines on their way into the changes topic: those of a partition go together in messages of many, each job once in a message,
 * since changes of one job are told apart by the offset. What does not fit in there goes between them as a change of its own.
 */
class Messages {
  readonly #task: LinesTask;
  readonly #open: { writer: LinesWriter; keys: Set<string> }[];
  readonly #closed: LinesMessage[] = [];

  constructor(task: LinesTask) {
    const { cluster, operation, atMs, changesPartitions } = task;
    this.#task = task;
    const head = { cluster, operation, atMs };
    this.#open = Array.from({ length: changesPartitions }, (_, partition) => {
      writers[partition] ??= new LinesWriter(head);
      writers[partition].restart(head);
      return { writer: writers[partition], keys: new Set<string>() };
    });
  }

  add(line: number, { key, definition, paused, checked }: ReturnType<typeof readJob>): void {
    const { cluster, operation, atMs, changesPartitions } = this.#task;
    const name = changeKey(cluster, key);
    const partition = partitionOf(name, changesPartitions);
    const { writer, keys } = this.#open[partition]!;
    const fits = fitsLines(definition) && !(checked instanceof CarillonError);
    if (!fits || keys.has(key) || writer.bytes > MESSAGE_BYTES) this.#close(partition);
    if (fits) {
      writer.add({ key, line, paused, definition, schedule: checked.timing.schedule, firstMs: checked.firstMs });
      keys.add(key);
      return;
    }
    const action = { kind: 'put', definition, ...(paused === undefined ? {} : { paused }) } as const;
    const told = { v: 1, id: changeId({ operation, line }), cluster, key, atMs, action } as const;
    const value = encodeMessage({ ...told, operation: { key: operation, line } });
    this.#closed.push({ partition, key: name, value });
  }

  #close(partition: number): void {
    const { writer, keys } = this.#open[partition]!;
    const value = writer.take();
    keys.clear();
    if (value !== null) this.#closed.push({ partition, key: this.#task.operation, value });
  }

  take(): LinesMessage[] {
    for (const partition of this.#open.keys()) this.#close(partition);
    return this.#closed;
  }
}

/** A job of a line or of an array: read, checked, and its first occurrence proved. */
export function readJob(value: unknown, atMs: number, calendars: Calendars) {
  checkJob(value);
  const { key, state, ...form } = value as Read<JobForm>;
  checkKey(key);
  const definition = readDefinition(form, atMs);
  // Whether a job that has no occurrence any more may be saved is known to the applier, who has the stored one.
  const checked = checkDefinition(definition, key, atMs, calendars);
  return { key, definition, paused: state === undefined ? undefined : state === 'paused', checked };
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
