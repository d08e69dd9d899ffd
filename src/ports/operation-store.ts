/** Bulk operations: what was sent under an `Idempotency-Key` and what became of it. */
export interface OperationStore {
  /** Starts an operation, or answers the stored one with this key. */
  start(operation: Operation): Promise<{ operation: Operation; started: boolean }>;
  get(cluster: string, key: string): Promise<Operation | null>;
  /** Notes that the first `lines` lines, whose running hash is `hash`, are in the topic; only ever forward. */
  received(cluster: string, key: string, lines: number, hash: string): Promise<void>;
  /** Notes the end of the upload: the total of lines is known now. */
  accepted(cluster: string, key: string, lines: number, hash: string): Promise<void>;
  /**
   * Adds results of lines read from one changes partition, where the offset counted last is still `fromOffset`; false: they
   * were counted already. Errors beyond `LIMITS.operationErrors` are counted and not kept.
   */
  count(batch: OperationCount): Promise<boolean>;
  /** Operations of a cluster, newest first. */
  list(cluster: string, limit: number): Promise<Operation[]>;
  /** Removes operations that ended before a time: accepted before it, and every line is counted. */
  sweep(beforeMs: number, limit: number): Promise<number>;
}

export interface OperationCount {
  cluster: string;
  key: string;
  partition: number;
  /** -1 before the first. */
  fromOffset: number;
  toOffset: number;
  counts: Partial<OperationCounts>;
  errors: OperationError[];
}

export interface OperationCounts {
  created: number;
  updated: number;
  unchanged: number;
  failed: number;
}

export interface OperationError {
  /** Line of the stream, from 1. */
  line: number;
  jobKey?: string;
  code: string;
  detail: string;
  field?: string;
}

export interface Operation {
  cluster: string;
  key: string;
  /** `receiving`: the upload runs or broke off; `accepted`: every line is in the topic; it is `done` when all are counted. */
  state: 'receiving' | 'accepted';
  startedMs: number;
  acceptedMs: number | null;
  /** Lines that are in the topic or refused. */
  lines: number;
  /** Running SHA-256 over the first `lines` lines, to tell a repeat from other content. */
  hash: string;
  counts: OperationCounts;
  errors: OperationError[];
  /** Per changes partition the offset of the last line counted. */
  counted: Record<string, number>;
}
