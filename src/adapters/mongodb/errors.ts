import {
  MongoBulkWriteError,
  MongoError,
  MongoInvalidArgumentError,
  MongoParseError,
  MongoServerError,
  MongoWriteConcernError,
} from 'mongodb';
import { CarillonError, carillonError } from '../../core/errors.ts';

const DUPLICATE_KEY = 11_000;
const OF_ID = /^E11000 duplicate key error collection: \S+ index: _id_ dup key/;

/** The user may not do this, or is not known. */
const REFUSING = new Set([13, 18]);

/**
 * Codes that pass by themselves, beside those that the server labels as retryable: an election, a shutdown, another node out
 * of reach, a time limit, a majority that did not confirm in time (https://github.com/mongodb/specifications, "Retryable
 * Writes" and "SDAM"). The outcome of a write is then unknown, and every write here may be repeated.
 */
const PASSING = new Set([
  6, 7, 50, 64, 89, 91, 100, 112, 134, 189, 262, 9_001, 10_058, 10_107, 11_600, 11_602, 13_435, 13_436,
]);

export function isDuplicateKey(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === DUPLICATE_KEY;
}

/** Whether one failure of an insert says that the `_id` exists already, and not that another unique index kept it out. */
export function idExists({ code, errmsg }: { code: number; errmsg?: string | undefined }): boolean {
  return code === DUPLICATE_KEY && errmsg !== undefined && OF_ID.test(errmsg);
}

/**
 * Indexes of the documents of an unordered insertMany whose `_id` exists already. Any other failure is thrown on: one more
 * unique index that keeps a document out is a fault, and a write that no majority confirmed is not known to stand.
 */
export function keptOut(error: unknown): number[] {
  if (!(error instanceof MongoBulkWriteError) || error.result.getWriteConcernError() !== undefined) throw error;
  const failures = [error.writeErrors].flat();
  const byId = failures.filter(idExists);
  if (byId.length === 0 || byId.length < failures.length) throw error;
  return byId.map((failure) => failure.index);
}

/** A failed call as an error of the table. */
export function mongoError(error: unknown): CarillonError {
  if (error instanceof CarillonError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (isUnavailable(error)) return carillonError('unavailable', `MongoDB: ${message}`, {}, error);
  if (error instanceof MongoServerError && REFUSING.has(Number(error.code))) {
    return carillonError(
      'setup-refused',
      `MongoDB refuses the user or the command (${message}): mend its rights`,
      {},
      error,
    );
  }
  return carillonError('internal', `MongoDB: ${message}`, {}, error);
}

function isUnavailable(error: unknown): boolean {
  if (!(error instanceof MongoError)) return false;
  if (error instanceof MongoWriteConcernError) return true;
  if (error.hasErrorLabel('RetryableWriteError') || error.hasErrorLabel('TransientTransactionError')) return true;
  if (error instanceof MongoBulkWriteError) {
    // A bulk write wraps what the driver met into one without a code.
    if (error.code === undefined && [error.writeErrors].flat().length === 0) return true;
    if (error.result.getWriteConcernError() !== undefined) return true;
  }
  if (error instanceof MongoServerError) return PASSING.has(Number(error.code));
  // What is left comes from the driver: no connection, no primary, a time-out, a closed client; or a call of a wrong form.
  return !(error instanceof MongoInvalidArgumentError || error instanceof MongoParseError);
}
