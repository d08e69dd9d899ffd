import { MultipleErrors, protocolErrors, protocolErrorsCodesById, ResponseError } from '@platformatic/kafka';
import { CarillonError, carillonError } from '../../core/errors.ts';

/** Error codes of Kafka's protocol that decide something here. */
export const CODE = {
  unknownServerError: -1,
  offsetOutOfRange: 1,
  unknownTopicOrPartition: 3,
  messageTooLarge: 10,
  invalidTopic: 17,
  recordListTooLarge: 18,
  topicExists: 36,
  outOfOrderSequence: 45,
  duplicatedSequence: 46,
  invalidProducerEpoch: 47,
  invalidTxnState: 48,
  invalidProducerIdMapping: 49,
  concurrentTransactions: 51,
  unknownProducerId: 59,
  producerFenced: 90,
  unknownTopicId: 100,
  transactionAbortable: 120,
} as const;

/** The epoch of a transactional id is not the sender's any more: somebody else took it, or the coordinator timed it out. */
export const EPOCH_CODES: ReadonlySet<number> = new Set([
  CODE.invalidProducerEpoch,
  CODE.invalidProducerIdMapping,
  CODE.producerFenced,
]);

export function nameOfCode(code: number): string {
  return (protocolErrorsCodesById as Record<string, string>)[code] ?? `error ${code}`;
}

/** Whether the protocol calls an error temporary (no leader yet, coordinator moves or loads, too few replicas, ...). */
export function isTemporary(code: number): boolean {
  // A broker that fails in a way it has no name for said nothing about the request: as no answer.
  if (code === CODE.unknownServerError) return true;
  const name = (protocolErrorsCodesById as Record<string, string>)[code];
  return name !== undefined && (protocolErrors as Record<string, { canRetry: boolean }>)[name]?.canRetry === true;
}

/** The protocol's error codes in an answer; empty: there was no answer (time-out, connection cut, nobody there). */
export function codesOf(error: unknown): number[] {
  if (!(error instanceof ResponseError)) return [];
  return error.errors.map((one: { apiCode?: unknown }) => Number(one.apiCode ?? 0)).filter((code) => code !== 0);
}

/** The parsed answer inside of an error that the library throws for an answer with errors in it. */
export function answerIn<T>(error: unknown): T {
  if (error instanceof ResponseError && error['response'] !== undefined) return error['response'] as T;
  throw error;
}

export function describe(error: unknown): string {
  const codes = codesOf(error);
  if (codes.length > 0) return [...new Set(codes)].map(nameOfCode).join(', ');
  if (error instanceof MultipleErrors) return error.errors.map(describe).join('; ');
  if (error instanceof CarillonError) return error.detail;
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message} (${cause.message})` : (message ?? String(error));
}

/** Whether the same request may be sent again: no answer, or only temporary errors in it. */
export function mayRepeat(error: unknown): boolean {
  if (error instanceof CarillonError) return false;
  const codes = codesOf(error);
  if (codes.length > 0) return codes.every(isTemporary);
  // Faults of the set-up do not pass by waiting: wrong credentials, no TLS.
  const named = (error as { code?: string }).code;
  return named !== 'PLT_KFK_AUTHENTICATION' && named !== 'PLT_KFK_USER';
}

export function unavailable(what: string, error: unknown): CarillonError {
  return carillonError('unavailable', `Kafka: ${what}: ${describe(error)}`, {}, error);
}
