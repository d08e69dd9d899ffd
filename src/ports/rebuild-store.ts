import type { AddResult, Stale, TriggerChange } from './trigger-change.ts';

/**
 * The part of the trigger store by which an owner makes a shard again that the store has lost, and compares one that it still
 * has. What a shard must hold is known from the job store and progress; every method takes the caller's word for it.
 *
 * A rebuild is `reset`, `restore` for all jobs, and a `scan` with the number of the rebuild, which makes the shard whole. A
 * store that loses the shard again in between forgets the rebuild too, and the scan says so.
 */
export interface RebuildStore {
  /** Empties the shard, whose H is 0 then and which is not whole, and notes the epoch and the number of the rebuild (from 1). */
  reset(shard: number, epoch: number, build: number): Promise<{ status: 'ok' } | Stale>;
  /**
   * As `add`, for versions that may stand there already: of the record's own version what is lacking is added (the member, where
   * there is a score and none stands; its score is left alone where one does) or taken away (the member, where there is no
   * score), which answers `applied`. Should the same version be added later on, it answers that it reaches the owner, since
   * whoever adds it does not know that it was restored. No deleted jobs.
   */
  restore(shard: number, epoch: number, changes: readonly RestoredJob[]): Promise<AddResult[] | Stale>;
  /** Indexes of jobs that the shard does not have in this version or a newer one, with or without a member as told. */
  compare(shard: number, jobs: readonly ExpectedJob[]): Promise<number[]>;
  /**
   * Rises whenever the store may be another one than before, or an older copy of itself (a connection was made anew): what
   * was answered until then may be forgotten.
   */
  connections(): number;
}

export type RestoredJob = TriggerChange & { record: Uint8Array };

export interface ExpectedJob {
  number: number;
  version: number;
  /** Whether it has a member, finished ones included. */
  member: boolean;
}
