/**
 * The part of the job store by which the owner of a slot records what became of its jobs. Every write names the version that it
 * is about; another version and tombstones are left alone.
 *
 * A store may keep the record of many one-shots in blocks, since marking each job for itself costs far more. Such a record is as
 * durable as any other, and every job that is read has the state that it says. Only the choice of a list by state and the counts
 * go by what is folded: a one-shot that is not yet comes neither among the enabled nor among the finished ones, and is counted
 * as finished even where it was changed meanwhile.
 */
export interface JobEndings {
  /** Marks enabled jobs as finished. */
  finish(jobs: readonly FinishedJob[], nowMs: number): Promise<void>;
  /** Puts jobs of any state into the error state with a reason. Answers how many. */
  fail(
    shard: number,
    jobs: readonly { number: number; version: number; reason: string }[],
    nowMs: number,
  ): Promise<number>;
  /** Brings records of one shard from blocks into its jobs; answers how many it has taken, 0: no block is left. */
  fold(): Promise<number>;
}

export interface FinishedJob {
  shard: number;
  number: number;
  version: number;
  /** The logical cluster of a one-shot, where it is known to be one. */
  oneShotOf?: string;
}
