import type { ErrorCode } from './errors.ts';
import type { CalendarDefinition, Schedule, ScheduleBounds } from './schedule/types.ts';

/**
 * States of a job. `enabled` fires. `paused` keeps its place and fires nothing; what passed goes by the misfire policy at
 * resume. `finished` has no occurrence left. `terminated` was ended by a person, is kept and never fires again. `error`
 * cannot fire for the reason that stands beside it. Delete removes the job, so there is no state for it.
 */
export type JobState = 'enabled' | 'paused' | 'finished' | 'terminated' | 'error';

/** What happens to occurrences that were not published within `misfireAfter` of their time. */
export interface MisfirePolicy {
  /** `once`: the latest missed one fires; `skip`: none; `all`: each, in order, behind a cursor. */
  mode: 'once' | 'skip' | 'all';
  /** Missed occurrences older than this, in ms, are dropped and counted. */
  maxAgeMs?: number;
  /** At most this many of the latest missed occurrences fire. */
  maxNumber?: number;
  /** Make-up fires per second. */
  maxPerSecond?: number;
}

/**
 * What a user says about a job, in normal form: all times in UTC ms, a fixed rate always anchored, a delay turned into its
 * time, a maximum count turned into an end time. Two definitions that are equal in this form are the same ("unchanged").
 */
export interface JobDefinition {
  schedule: Schedule;
  bounds: ScheduleBounds;
  misfire: MisfirePolicy;
  /** Text of the payload, byte for byte as it came; it is the value of every trigger. */
  payload: string;
  contentType: string;
  /** Free text for people; no meaning for the engine. */
  description?: string;
  labels?: Record<string, string>;
}

/** Position of a change in the changes topic. */
export interface ChangePosition {
  partition: number;
  offset: number;
}

/** A job as the job store keeps it. (cluster, key) is unique; (shard, number) is unique. */
export interface Job extends JobDefinition {
  cluster: string;
  key: string;
  /** Counts every change, from 1. */
  version: number;
  state: JobState;
  stateReason?: string;
  shard: number;
  number: number;
  createdMs: number;
  updatedMs: number;
  /** Occurrences after this instant belong to this version, those up to it to the one before. */
  cutMs: number;
  /** Last change applied: a change at or before it changes nothing. */
  position: ChangePosition;
  /** Request id of the last change and its result, for the answer to a repeated message. */
  lastChange: { id: string; result: ChangeResult };
  /** A deleted job stands as a tombstone until its change cannot come again. */
  deleted?: boolean;
  /** The maximum count that became an end time and the instant it was counted from: saved again, it counts from there. */
  counted?: { maxCount: number; fromMs: number };
  /** The latest runs by hand (request id and nominal time), so that a repeated request makes no second run. */
  fired?: { id: string; atMs: number }[];
  /** What a repeat of changes that were not yet committed needs; absent where `lastChange` says all. */
  replay?: ChangeReplay;
  /** A move to another shard that is under way; `engine/change/move.ts` tells how it goes. */
  move?: JobMove;
}

export interface JobMove {
  /** Effective times up to this instant belong to the place that the job leaves, later ones to the next, UTC ms. */
  cutMs: number;
  /** The place that it leaves; absent while it still stands there and ends at the cut. */
  from?: Place;
}

/** Where a job stands: its number in a shard. */
export interface Place {
  shard: number;
  number: number;
}

export type ChangeResult = 'created' | 'updated' | 'unchanged' | 'deleted' | 'fired';

/** What became of a change. */
export type ChangeOutcome =
  | { ok: true; result: ChangeResult; version: number; state: JobState }
  | { ok: false; code: ErrorCode; detail: string; field?: string };

/**
 * Of the changes that wrote a job and may not be committed yet: what their effects and answers were. A crash between the
 * writes of a batch and its commit makes the same changes come again, and they must end in the same messages and answers.
 */
export interface ChangeReplay {
  /** Version that stood before these changes and its records; 0 and none: the job was not there. */
  formerVersion: number;
  former: FormerRecord[];
  /** Outcomes of the changes before the last one, by offset; `repeated`: its request had come before. */
  outcomes: { offset: number; outcome: ChangeOutcome; repeated?: boolean }[];
  /** Places that this key left: it was deleted and created again. The owner of each must learn of its end. */
  left: LeftPlace[];
  /**
   * A version that was not committed was replaced: its member may have been in the trigger store and is not any more, so the
   * store cannot say whether the owner must hear of the change, and it is told in any case.
   */
  tell?: boolean;
  /** The job was finished already when this version was written: it fires nothing. */
  finished?: boolean;
}

/** The encoded record (base64) of a former version at one place; null: it is too large to be told. */
export interface FormerRecord extends Place {
  record: string | null;
}

/** The place of a deleted job, or one that a job has left, with what its end needs. `former` and `tell` as above. */
export interface LeftPlace extends Place {
  id: string;
  offset: number;
  version: number;
  cutMs: number;
  former: string | null;
  tell?: boolean;
}

/** What a wheel must know of a job; the job record in the trigger store holds exactly this (`record.ts`). */
export interface JobRecord {
  cluster: string;
  key: string;
  version: number;
  state: JobState;
  createdMs: number;
  cutMs: number;
  schedule: Schedule;
  bounds: ScheduleBounds;
  misfire: MisfirePolicy;
  payload: string;
  contentType: string;
  /** The exclusion calendars that the bounds name, as they were when this version was made. */
  calendars?: Record<string, CalendarDefinition>;
}

/** A logical cluster (tenant). */
export interface Cluster {
  name: string;
  topic: string;
  partitions: number;
  envelope: 'cloudevents' | 'compact';
  delivery: Delivery;
  createdMs: number;
}

export type Delivery = 'at-least-once' | 'exactly-once';

/** Execution id of one occurrence: `SHARD-NUMBER-NOMINALMS`; the version is an attribute, not part of the id. */
export function executionId(shard: number, number: number, nominalMs: number): string {
  return `${shard}-${number}-${nominalMs}`;
}

/** A run that no schedule made ends in `-f` and its request's key. */
export function firedExecutionId(shard: number, number: number, nominalMs: number, requestKey: string): string {
  return `${shard}-${number}-${nominalMs}-f${requestKey}`;
}
