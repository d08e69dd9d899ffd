import type { Job, JobState } from '../core/job.ts';
import type { PlacedLine } from '../core/lines.ts';
import type { JobEndings } from './job-endings.ts';

export type { FinishedJob } from './job-endings.ts';

/**
 * Jobs and their versions: the truth about intent. MongoDB in cluster mode (majority reads and writes), a table in embedded
 * mode. Only the applier writes jobs, serially per job; every write is conditional all the same, since a fenced applier may
 * still be running.
 */
export interface JobStore extends JobEndings {
  get(cluster: string, key: string): Promise<Job | null>;
  /** Jobs (tombstones too) by key, in any order; missing ones are left out. At most 10,000 keys. */
  getMany(jobs: readonly { cluster: string; key: string }[]): Promise<Job[]>;
  /** Unordered insert; answers per job whether it went in (false: the key exists already, tombstones included). */
  insertMany(jobs: readonly Job[]): Promise<boolean[]>;
  /** As `insertMany`, of the jobs that lines make (`jobOfLine`): a store that keeps bytes copies them. */
  insertLines(lines: readonly PlacedLine[]): Promise<boolean[]>;
  /** Replaces each job where the stored version and position are `expected`; answers per job whether it did. */
  replaceMany(changes: readonly { job: Job; expected: { version: number; offset: number } }[]): Promise<boolean[]>;
  /**
   * One page of the jobs of a cluster, by key in binary order of its UTF-8, without tombstones. `next` is the `afterKey` of
   * the next page; null: there are no more. A page may be shorter than `limit` before that.
   */
  list(query: JobQuery): Promise<{ jobs: Job[]; next: string | null }>;
  /** Jobs of a shard by number, without tombstones: for rebuild and reconcile. */
  byShard(shard: number, afterNumber: number, limit: number): Promise<Job[]>;
  /** As `byShard`, only what a comparison with the trigger store needs. */
  versions(shard: number, afterNumber: number, limit: number): Promise<JobVersion[]>;
  /** Jobs that use one of the zones or calendars, or that move, by (cluster, key), with paging by the last job answered; no tombstones. */
  using(what: JobUse, after: { cluster: string; key: string } | null, limit: number): Promise<Job[]>;
  /** Counts by state (each is named), without tombstones; of one cluster or of all. */
  counts(cluster?: string): Promise<Record<JobState, number>>;
  /** Removes tombstones of a changes partition whose offset is below `offset`; answers how many. */
  sweep(partition: number, offset: number, limit: number): Promise<number>;
}

export type JobVersion = Pick<Job, 'number' | 'version' | 'state' | 'updatedMs'>;

export interface JobQuery {
  cluster: string;
  /** Keys after this one (exclusive). */
  afterKey?: string;
  /** Keys that start with this text. */
  prefix?: string;
  state?: JobState;
  limit: number;
}

/** What a job may depend on and that may change under it: zone rules, a calendar, the shard that it leaves. */
export type JobUse = { zones: readonly string[] } | { calendar: string } | { moving: true };
