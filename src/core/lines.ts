import type { Job, JobDefinition, JobState } from './job.ts';
import { LIMITS } from './limits.ts';
import type { Change } from './messages.ts';
import { definitionOf, definitionText } from './record.ts';
import type { Schedule } from './schedule/types.ts';

/**
 * Lines of a bulk operation as bytes: many puts of different jobs in one message of the changes topic. All that a new job is,
 * but for its place, is made once, where the line is checked: the text of its definition in normal form, its record, and its
 * first effective time. An applier that finds the job absent (in a bulk nearly always) copies bytes and parses nothing; for
 * one that is there the message tells what was said, as any other change does.
 *
 * Form, little-endian: FORM (1 byte), number of lines (u16), instant (f64, UTC ms), cluster and operation (u16 length and UTF-8
 * each); then for each line: number (u32), first effective time (f64, UTC ms; -1: none), flags (1 byte), bytes of key (u16), of
 * the zone of a cron that names one (1 byte), of the record before its definition (u16), of the definition (u32) and of the rest
 * (u32), and these five. The record is its head
 * and the definition, which is a JSON array without its opening bracket; the rest is JSON (`LineRest`) or empty.
 */
const FORM = 1;
/** Where no state was said there is neither of the two: a new job is enabled, another keeps its own. */
const SAID_PAUSED = 1;
const SAID_ENABLED = 2;
/** The anchor of the rate was not said: it is that of a job made at this instant. */
const ANCHOR_IMPLIED = 4;
const LINE_HEAD = 4 + 8 + 1 + 2 + 1 + 2 + 4 + 4;

/** Upper bound of what stands before the lines and of a zone's name. */
const HEAD_BYTES = 1_024;

/** What a job has beside its record. */
export type LineRest = Pick<JobDefinition, 'description' | 'labels'>;

/** What the lines of one message have in common. */
export interface LinesHead {
  cluster: string;
  operation: string;
  /** UTC ms: the cut at which their jobs begin. */
  atMs: number;
}

/** A line that was checked. */
export interface CheckedLine {
  key: string;
  line: number;
  paused: boolean | undefined;
  /** As it was said. */
  definition: JobDefinition;
  /** The schedule in normal form, as a job that is made now has it; the bounds are as they were said. */
  schedule: Schedule;
  /** First effective time, UTC ms. */
  firstMs: number;
}

/**
 * Whether a definition can stand in a message of lines: nothing of it depends on when and where it is applied, and its record is
 * within its limit. Others go as changes of their own.
 */
export function fitsLines({ bounds, payload }: JobDefinition): boolean {
  return bounds.maxCount === undefined && bounds.calendars === undefined && payload.length < LIMITS.recordBytes / 6;
}

/** A message of a block of the stream for one partition has about as much. */
const FIRST_BYTES = 32 * 1024;

/** Writes lines one behind the other into messages; the buffer grows with the largest message. */
export class LinesWriter {
  #head: LinesHead;
  #json: { cluster: string; atMs: string };
  #buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #end = 0;
  #count = 0;

  constructor(head: LinesHead) {
    this.#head = head;
    this.#json = jsonOf(head);
  }

  /** The next messages have another head; what was not taken is forgotten. */
  restart(head: LinesHead): void {
    this.#head = head;
    this.#json = jsonOf(head);
    this.#end = 0;
    this.#count = 0;
  }

  get count(): number {
    return this.#count;
  }

  /** Bytes of the message so far. */
  get bytes(): number {
    return this.#end;
  }

  add({ key, line, paused, definition, schedule, firstMs }: CheckedLine): void {
    const { cluster, atMs } = this.#json;
    const { description, labels } = definition;
    const state: JobState = paused ? 'paused' : 'enabled';
    // As `encodeRecord`, of version 1.
    const head = `[1,1,"${state}",${cluster},${JSON.stringify(key)},${atMs},${atMs},`;
    const text = definitionText({ ...definition, schedule }).slice(1);
    const rest = description === undefined && labels === undefined ? '' : JSON.stringify({ description, labels });
    this.#room(3 * (key.length + head.length + text.length + rest.length) + LINE_HEAD + HEAD_BYTES);
    if (this.#count === 0) this.#begin();
    const buffer = this.#buffer;
    const at = this.#end;
    let end = at + LINE_HEAD;
    const write = (text: string): number => {
      const length = buffer.write(text, end);
      end += length;
      return length;
    };
    buffer.writeUInt32LE(line, at);
    buffer.writeDoubleLE(paused ? -1 : firstMs, at + 4);
    buffer[at + 12] = flagsOf(paused, definition.schedule);
    buffer.writeUInt16LE(write(key), at + 13);
    buffer[at + 15] = schedule.kind === 'cron' && schedule.zone !== undefined ? write(schedule.zone) : 0;
    buffer.writeUInt16LE(write(head), at + 16);
    buffer.writeUInt32LE(write(text), at + 18);
    buffer.writeUInt32LE(rest === '' ? 0 : write(rest), at + 22);
    this.#end = end;
    this.#count += 1;
    buffer.writeUInt16LE(this.#count, 1);
  }

  /** Takes the message, its own bytes, and begins anew; null where there is no line. */
  take(): Uint8Array | null {
    if (this.#count === 0) return null;
    // With memory of its own, since it goes to another thread, which a slice of a pool would take along.
    const message = new Uint8Array(this.#buffer.subarray(0, this.#end));
    this.#end = 0;
    this.#count = 0;
    return message;
  }

  #begin(): void {
    const { cluster, operation, atMs } = this.#head;
    const buffer = this.#buffer;
    buffer[0] = FORM;
    buffer.writeDoubleLE(atMs, 3);
    let at = 11;
    for (const text of [cluster, operation]) {
      const length = buffer.write(text, at + 2);
      buffer.writeUInt16LE(length, at);
      at += 2 + length;
    }
    this.#end = at;
  }

  #room(bytes: number): void {
    if (this.#end + bytes <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#end + bytes, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#end);
    this.#buffer = larger;
  }
}

function jsonOf({ cluster, atMs }: LinesHead): { cluster: string; atMs: string } {
  return { cluster: JSON.stringify(cluster), atMs: String(atMs) };
}

function flagsOf(paused: boolean | undefined, said: Schedule): number {
  const state = paused === undefined ? 0 : paused ? SAID_PAUSED : SAID_ENABLED;
  return said.kind === 'rate' && said.anchorMs === undefined ? state | ANCHOR_IMPLIED : state;
}

/** One line of a message, a view of its bytes; `cluster`, `operation` and `atMs` are those of the message. */
export interface Line extends LinesHead {
  key: string;
  line: number;
  /** First effective time of a new job, UTC ms; null: it is paused. */
  score: number | null;
  flags: number;
  /** The message, and where in it stand zone, record, its definition and the rest. */
  bytes: Buffer;
  zoneAt: number;
  recordAt: number;
  definitionAt: number;
  restAt: number;
  end: number;
}

/** Whether a message has lines; any other one is JSON. */
export function hasLines(value: Uint8Array): boolean {
  return value[0] === FORM;
}

/** How many changes a message of the changes topic has. */
export function changesIn(value: Uint8Array | null): number {
  return value !== null && hasLines(value) && value.length > 2 ? value[1]! | (value[2]! << 8) : 1;
}

/** The lines of a message. @throws RangeError for bytes of another form */
export function readLines(value: Uint8Array): Line[] {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const count = bytes.readUInt16LE(1);
  const atMs = bytes.readDoubleLE(3);
  const clusterEnd = 13 + bytes.readUInt16LE(11);
  const cluster = bytes.toString('utf8', 13, clusterEnd);
  const operationEnd = clusterEnd + 2 + bytes.readUInt16LE(clusterEnd);
  const operation = bytes.toString('utf8', clusterEnd + 2, operationEnd);
  const lines: Line[] = new Array(count);
  for (let n = 0, at = operationEnd; n < count; n += 1) {
    const score = bytes.readDoubleLE(at + 4);
    const zoneAt = at + LINE_HEAD + bytes.readUInt16LE(at + 13);
    const recordAt = zoneAt + bytes[at + 15]!;
    const definitionAt = recordAt + bytes.readUInt16LE(at + 16);
    const restAt = definitionAt + bytes.readUInt32LE(at + 18);
    const end = restAt + bytes.readUInt32LE(at + 22);
    if (end > bytes.length) throw new RangeError('a message of lines is cut');
    lines[n] = {
      cluster,
      operation,
      atMs,
      key: bytes.toString('utf8', at + LINE_HEAD, zoneAt),
      line: bytes.readUInt32LE(at),
      score: score < 0 ? null : score,
      flags: bytes[at + 12]!,
      bytes,
      zoneAt,
      recordAt,
      definitionAt,
      restAt,
      end,
    };
    at = end;
  }
  return lines;
}

/** The record of the new job, as `encodeRecord` makes it. */
export function recordOfLine({ bytes, recordAt, restAt }: Line): Uint8Array {
  return bytes.subarray(recordAt, restAt);
}

export function changeId({ operation, line }: Pick<Line, 'operation' | 'line'>): string {
  return `${operation}/${line}`;
}

export function restOfLine({ bytes, restAt, end }: Line): LineRest {
  return restAt === end ? {} : JSON.parse(bytes.toString('utf8', restAt, end));
}

/** Its definition in normal form. */
function normalOf(line: Line): JobDefinition {
  const { bytes, definitionAt, restAt } = line;
  return { ...definitionOf(`[${bytes.toString('utf8', definitionAt, restAt)}`), ...restOfLine(line) };
}

/** The line as a change like any other, with what was said. */
export function changeOfLine(line: Line): Change {
  const { cluster, operation, atMs, key, flags } = line;
  const normal = normalOf(line);
  const { schedule } = normal;
  const implied = (flags & ANCHOR_IMPLIED) !== 0 && schedule.kind === 'rate';
  const definition = implied ? { ...normal, schedule: { kind: schedule.kind, everyMs: schedule.everyMs } } : normal;
  const said = flags & (SAID_PAUSED | SAID_ENABLED);
  return {
    v: 1,
    id: changeId(line),
    cluster,
    key,
    atMs,
    action: { kind: 'put', definition, ...(said === 0 ? {} : { paused: said === SAID_PAUSED }) },
    operation: { key: operation, line: line.line },
  };
}

/** A line with the place that its job gets and the position of its change. */
export interface PlacedLine extends Line {
  shard: number;
  number: number;
  partition: number;
  offset: number;
}

/** The job that a line makes, as `decide` makes it of its change. */
export function jobOfLine(line: PlacedLine): Job {
  const { cluster, key, atMs, score, shard, number, partition, offset } = line;
  return {
    ...normalOf(line),
    cluster,
    key,
    version: 1,
    state: score === null ? 'paused' : 'enabled',
    shard,
    number,
    createdMs: atMs,
    updatedMs: atMs,
    cutMs: atMs,
    position: { partition, offset },
    lastChange: { id: changeId(line), result: 'created' },
  };
}
