import type { Deduplicator } from './deduplicator.ts';
import type { Trigger } from './trigger.ts';

/** What a business service does with a trigger. Done when the promise is kept; a rejection is a failed attempt. */
export type TriggerHandler = (trigger: Trigger) => Promise<void>;

/** What all trigger consumers share, whatever carries the triggers. */
export interface ConsumerOptions {
  /** Consumer group: its members share the partitions, and its offsets are stored. */
  group: string;
  /** Handlers that run at once in this process, over all partitions; triggers of one job always run in order. Default 10. */
  concurrency?: number;
  /** Drops copies by execution id. Without one a trigger may be handled again after a crash or a failed commit. */
  deduplicator?: Deduplicator;
  /** `automatic` (default): a trigger is done when its handler is. `manual`: when `trigger.commit()` was called. */
  commit?: 'automatic' | 'manual';
  /** Offsets are stored at most this often, in ms: what a crash repeats without a de-duplicator. Default 200. */
  commitEveryMs?: number;
  retry?: RetryPolicy;
  /**
   * Called when all attempts of a trigger have failed. `skip`: it counts as done and never comes again. `stop` (default):
   * the consumer stops, nothing of that partition behind it is stored, and `finished` rejects with the error.
   */
  onError?: (error: unknown, trigger: Trigger) => 'skip' | 'stop' | Promise<'skip' | 'stop'>;
  /** Triggers that wait in memory, over all partitions; beyond, no more are fetched. Default 10,000. */
  maxWaiting?: number;
  /** Bytes of their payloads. Default 64 MiB. */
  maxWaitingBytes?: number;
  /** `stop` and a rebalance wait at most this long for running handlers, in ms. Default 30 s. */
  drainMs?: number;
  /** Told what is worth a log line: records that are no triggers, dropped copies, failed attempts, failed commits. */
  onEvent?: (event: ConsumerEvent) => void;
}

/** Attempts of one trigger: the first at once, then after `firstMs`, twice as long each time, at most `maxMs`. */
export interface RetryPolicy {
  /** Calls of the handler in all. Default 5. */
  attempts?: number;
  /** Default 200. */
  firstMs?: number;
  /** Default 10,000. */
  maxMs?: number;
}

export type ConsumerEvent =
  | { kind: 'not-a-trigger'; topic: string; partition: number; offset: number }
  | { kind: 'duplicated'; id: string }
  | { kind: 'attempt-failed'; id: string; attempt: number; error: unknown }
  | { kind: 'skipped'; id: string; error: unknown }
  | { kind: 'confirm-failed'; id: string; error: unknown }
  | { kind: 'commit-failed'; error: unknown }
  | { kind: 'drain-timeout'; running: number }
  | { kind: 'disconnected'; error: unknown };

/** A consumer that runs. */
export interface RunningConsumer {
  /**
   * Begins nothing more, waits for the running handlers (at most `drainMs`), stores offsets and leaves the group. Triggers
   * that were fetched and not begun come again to another member.
   */
  stop(): Promise<void>;
  /** Kept after `stop`; rejects when the consumer stopped by itself. */
  readonly finished: Promise<void>;
}
