/**
 * Forms of what stands on the bus and in the stores, written down again from the documentation: the oracle shares no code with
 * the engine that it judges.
 */
export interface Grid {
  firstMs: number;
  /** 0: a single time. */
  everyMs: number;
  lastMs: number;
}

export interface Definition {
  schedule:
    | { kind: 'rate'; everyMs: number; anchorMs: number }
    | { kind: 'once'; atMs: number }
    | { kind: 'cron'; expression: string };
  bounds: { endMs?: number };
  misfire: { mode: 'all' | 'once' | 'skip' };
  payload: string;
  contentType: string;
}

export type Action =
  | { kind: 'put'; definition: Definition }
  | { kind: 'delete' | 'pause' | 'resume' }
  | { kind: 'fire'; requestKey: string }
  | { kind: 'move' };

export interface Change {
  id: string;
  cluster: string;
  key: string;
  atMs: number;
  action: Action;
}

export interface ProgressRecord {
  epoch: number;
  t: number;
  o: number;
  /** T of shards that stand behind, by shard. */
  lagging?: Record<string, number>;
}

export interface CursorRecord {
  fromMs: number;
  reason: string;
}

/** One record of the bus, as the log holds it. */
export interface LogRecord {
  partition: number;
  offset: number;
  key: string | null;
  value: Uint8Array | null;
  headers: Readonly<Record<string, string>>;
}

const decoder = new TextDecoder();

export function read<T>(value: Uint8Array): T {
  return JSON.parse(decoder.decode(value)) as T;
}
