// The driver's own way to send documents that are BSON already; it has no public name, so the pinned version counts.
import { DocumentSequence } from 'mongodb/lib/cmap/commands.js';
import { changeId, type PlacedLine, restOfLine } from '../../core/lines.ts';
import { jobId } from './job-document.ts';

const DOUBLE = 1;
const STRING = 2;
const DOCUMENT = 3;
const BOOLEAN = 8;
/** A section of OP_MSG that holds documents, and the field of the command that they stand for. */
const SEQUENCE = 1;
const FIELD = 'documents';
const OPENING = '['.charCodeAt(0);
/** Upper bound of what a document has beside its texts. */
const FRAME_BYTES = 512;

/** BSON, one element behind the other (https://bsonspec.org/spec.html). */
class BsonWriter {
  readonly buffer: Buffer;
  end = 0;

  constructor(mostBytes: number) {
    this.buffer = Buffer.allocUnsafeSlow(mostBytes);
  }

  name(type: number, name: string): void {
    this.buffer[this.end++] = type;
    this.end += this.buffer.write(name, this.end, 'latin1');
    this.buffer[this.end++] = 0;
  }

  /** Answers where the number stands. */
  number(name: string, value = 0): number {
    this.name(DOUBLE, name);
    const at = this.end;
    this.end = this.buffer.writeDoubleLE(value, at);
    return at;
  }

  text(name: string, value: string): void {
    this.name(STRING, name);
    this.string(value);
  }

  string(value: string): void {
    const length = this.buffer.write(value, this.end + 4);
    this.buffer.writeInt32LE(length + 1, this.end);
    this.end += 4 + length;
    this.buffer[this.end++] = 0;
  }

  copy(bytes: Uint8Array): void {
    this.buffer.set(bytes, this.end);
    this.end += bytes.length;
  }

  /** Begins a document; answers where its length stands. */
  begin(): number {
    this.end += 4;
    return this.end - 4;
  }

  finish(start: number): void {
    this.buffer[this.end++] = 0;
    this.buffer.writeInt32LE(this.end - start, start);
  }
}

/** Upper bound of a document. */
export function mostBytes({
  cluster,
  key,
  operation,
  recordAt,
  zoneAt,
  definitionAt,
  restAt,
  end,
}: PlacedLine): number {
  const texts = 3 * (2 * cluster.length + key.length + operation.length) + (recordAt - zoneAt) + 3 * (end - restAt);
  return FRAME_BYTES + texts + restAt - definitionAt;
}

/** What the documents of one cluster and state have in common, from behind the `_id` to the id of the change. */
interface Frame {
  cluster: string;
  paused: boolean;
  bytes: Uint8Array;
  /** Where in it the numbers stand. */
  shard: number;
  number: number;
  times: number[];
  partition: number;
  offset: number;
}

function frameOf(cluster: string, paused: boolean): Frame {
  const bson = new BsonWriter(FRAME_BYTES + 3 * cluster.length);
  bson.text('cluster', cluster);
  bson.number('version', 1);
  bson.text('state', paused ? 'paused' : 'enabled');
  const shard = bson.number('shard');
  const number = bson.number('number');
  const times = ['createdMs', 'updatedMs', 'cutMs'].map((name) => bson.number(name));
  bson.name(DOCUMENT, 'position');
  const position = bson.begin();
  const partition = bson.number('partition');
  const offset = bson.number('offset');
  bson.finish(position);
  bson.name(DOCUMENT, 'lastChange');
  return { cluster, paused, bytes: bson.buffer.subarray(0, bson.end), shard, number, times, partition, offset };
}

/** The same of names alone. */
function constant(write: (bson: BsonWriter) => void): Uint8Array {
  const bson = new BsonWriter(FRAME_BYTES);
  write(bson);
  return bson.buffer.subarray(0, bson.end);
}

const ID = constant((bson) => bson.name(STRING, '_id'));
const CHANGE_ID = constant((bson) => bson.name(STRING, 'id'));
const CREATED = constant((bson) => bson.text('result', 'created'));
const DEFINITION = constant((bson) => bson.name(STRING, 'definition'));
const NOT_DELETED = constant((bson) => {
  bson.name(BOOLEAN, 'deleted');
  bson.buffer[bson.end++] = 0;
});

/** Memory that is used again: megabytes for each insert would have the collector look at the whole heap twice a second. */
const idle: BsonWriter[] = [];
const IDLE_MOST = 8;

/**
 * The documents of new jobs as BSON, one behind the other: what `toDocument` and the driver's encoder make of the same jobs,
 * since the definition is copied as it came and all else but a few numbers is the same for all. Numbers are doubles, which
 * MongoDB compares with integers by value. They go as the sequence of documents of a command.
 */
export class LineDocuments extends DocumentSequence {
  readonly #bson: BsonWriter;
  #frame: Frame | null = null;

  constructor(lines: readonly PlacedLine[]) {
    super(FIELD);
    const most = lines.reduce((sum, line) => sum + mostBytes(line), FRAME_BYTES);
    const kept = idle.findIndex(({ buffer }) => buffer.length >= most);
    this.#bson = kept === -1 ? new BsonWriter(most) : idle.splice(kept, 1)[0]!;
    const bson = this.#bson;
    bson.end = 0;
    bson.buffer[bson.end++] = SEQUENCE;
    const length = bson.begin();
    bson.end += bson.buffer.write(FIELD, bson.end);
    bson.buffer[bson.end++] = 0;
    for (const line of lines) this.#add(line);
    bson.buffer.writeInt32LE(bson.end - length, length);
  }

  override toBin(): Uint8Array {
    return this.#bson.buffer.subarray(0, this.#bson.end);
  }

  /** Its memory is used again; it was sent and answered. */
  free(): void {
    if (idle.length < IDLE_MOST) idle.push(this.#bson);
  }

  #add(line: PlacedLine): void {
    const bson = this.#bson;
    const start = bson.begin();
    bson.copy(ID);
    bson.string(jobId(line.cluster, line.key));
    this.#common(line);
    const change = bson.begin();
    bson.copy(CHANGE_ID);
    bson.string(changeId(line));
    bson.copy(CREATED);
    bson.finish(change);
    this.#texts(line);
    bson.copy(NOT_DELETED);
    bson.finish(start);
  }

  #common({ cluster, score, shard, number, atMs, partition, offset }: PlacedLine): void {
    const paused = score === null;
    let frame = this.#frame;
    if (frame === null || frame.cluster !== cluster || frame.paused !== paused) frame = frameOf(cluster, paused);
    this.#frame = frame;
    const { buffer, end } = this.#bson;
    this.#bson.copy(frame.bytes);
    buffer.writeDoubleLE(shard, end + frame.shard);
    buffer.writeDoubleLE(number, end + frame.number);
    for (const at of frame.times) buffer.writeDoubleLE(atMs, end + at);
    buffer.writeDoubleLE(partition, end + frame.partition);
    buffer.writeDoubleLE(offset, end + frame.offset);
  }

  #texts(line: PlacedLine): void {
    const bson = this.#bson;
    const { bytes, zoneAt, recordAt, definitionAt, restAt, end } = line;
    if (recordAt > zoneAt) bson.text('zone', bytes.toString('latin1', zoneAt, recordAt));
    if (end > restAt) {
      const { description, labels } = restOfLine(line);
      if (description !== undefined) bson.text('description', description);
      if (labels !== undefined) bson.text('labels', JSON.stringify(labels));
    }
    bson.copy(DEFINITION);
    const length = 1 + restAt - definitionAt;
    bson.buffer.writeInt32LE(length + 1, bson.end);
    bson.buffer[bson.end + 4] = OPENING;
    bytes.copy(bson.buffer, bson.end + 5, definitionAt, restAt);
    bson.end += 4 + length;
    bson.buffer[bson.end++] = 0;
  }
}
