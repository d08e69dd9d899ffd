import { type Collection, type Db, type Document, MongoServerError } from 'mongodb';
import { carillonError } from '../../core/errors.ts';
import type { PlacedLine } from '../../core/lines.ts';
import { idExists } from './errors.ts';
import type { JobDocument } from './job-document.ts';
import { LineDocuments, mostBytes as mostLineBytes } from './line-documents.ts';

/** Bytes of the documents of one command, by their upper bound: the driver encodes a command into a buffer of 17 MiB. */
const COMMAND_BYTES = 16 * 1024 * 1024;
/** Upper bound of what a document has beside its free texts. */
const FRAME_BYTES = 4 * 1024;

interface Failure {
  index: number;
  code: number;
  errmsg: string;
}

/**
 * Unordered inserts as plain commands; answers the indexes of the documents whose `_id` exists already. The driver's own
 * `insertMany` measures each document before it encodes it, which adds to the work (m: 6.2 -> 4.6 us a job). It is not
 * retried: a batch whose outcome is unknown comes again, and its documents are then found.
 *
 * @throws for one more unique index that keeps a document out, and where no majority confirmed
 */
export async function insertDocuments(
  db: Db,
  collection: Collection<JobDocument>,
  documents: readonly JobDocument[],
): Promise<number[]> {
  const keptOut: number[] = [];
  for (let from = 0; from < documents.length; ) {
    const to = endOfPiece(documents, from);
    const reply = await insert(db, collection, documents.slice(from, to));
    for (const index of indexesKeptOut(reply)) keptOut.push(from + index);
    from = to;
  }
  return keptOut;
}

/** The same of lines, which are cut by their bytes. */
export async function insertLineDocuments(
  db: Db,
  collection: Collection<JobDocument>,
  lines: readonly PlacedLine[],
): Promise<number[]> {
  const keptOut: number[] = [];
  for (let from = 0; from < lines.length; ) {
    let bytes = 0;
    let to = from;
    while (to < lines.length && (to === from || bytes < COMMAND_BYTES / 2)) bytes += mostLineBytes(lines[to++]!);
    const documents = new LineDocuments(lines.slice(from, to));
    const reply = await insert(db, collection, documents);
    documents.free();
    for (const index of indexesKeptOut(reply)) keptOut.push(from + index);
    from = to;
  }
  return keptOut;
}

function insert(
  db: Db,
  { collectionName, writeConcern }: Collection<JobDocument>,
  documents: readonly JobDocument[] | LineDocuments,
): Promise<Document> {
  const majority = { w: 'majority', wtimeout: writeConcern?.wtimeoutMS ?? 0 };
  const command = { insert: collectionName, ordered: false, writeConcern: majority, documents };
  return db.command(command, { ignoreUndefined: true });
}

function endOfPiece(documents: readonly JobDocument[], from: number): number {
  let bytes = 0;
  let to = from;
  for (; to < documents.length; to++) {
    bytes += mostBytes(documents[to]!);
    if (to > from && bytes > COMMAND_BYTES) break;
  }
  return to;
}

/** A UTF-16 unit has at most 3 bytes of UTF-8. */
function mostBytes({ definition, labels, description, replay }: JobDocument): number {
  const texts = definition.length + (labels?.length ?? 0) + (description?.length ?? 0);
  return FRAME_BYTES + 3 * (texts + (replay === undefined ? 0 : JSON.stringify(replay).length));
}

function indexesKeptOut({ writeErrors = [], writeConcernError }: Document): number[] {
  const failures = writeErrors as Failure[];
  const other = failures.find((failure) => !idExists(failure));
  if (other !== undefined) throw new MongoServerError({ message: other.errmsg, code: other.code });
  if (writeConcernError !== undefined) {
    throw carillonError('unavailable', `MongoDB: no majority confirmed an insert: ${writeConcernError.errmsg}`);
  }
  return failures.map(({ index }) => index);
}
