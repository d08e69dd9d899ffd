import type { ChangeOutcome, ChangeResult, Job, JobDefinition, MisfirePolicy } from './job.ts';
import type { ScheduleBounds } from './schedule/types.ts';

/**
 * The messages that the engine's parts send each other on the bus. All are JSON in UTF-8; `v` is the version of the form,
 * so that processes of two versions can run side by side.
 */

/**
 * What is to happen to one job. A `put` creates or replaces; the preconditions make it a pure create or a pure replace. Its
 * definition is what the user said, not yet in normal form: the applier knows the job's anchor and count. `paused` absent:
 * a new job is enabled, another keeps its state.
 */
export type ChangeAction =
  | { kind: 'put'; definition: JobDefinition; paused?: boolean; onlyIf?: 'absent' | 'present' }
  /** Fields to set; absent fields stay. The definition is checked again as a whole by the applier. */
  | { kind: 'patch'; fields: DefinitionPatch; paused?: boolean }
  | { kind: 'delete' }
  | { kind: 'pause' }
  | { kind: 'resume' }
  | { kind: 'terminate' }
  /** The zone data or a calendar changed under the job: its times are computed anew. */
  | { kind: 'recompute'; reason: string }
  /** One run at once, beside the schedule; `requestKey` ends its execution id. */
  | { kind: 'fire'; requestKey: string }
  /** A step of a move to another shard, from the manager (`engine/change/move.ts`); all but the first name a version. */
  | { kind: 'move'; step: 'begin'; cutMs: number }
  | { kind: 'move'; step: 'go' | 'end' | 'cancel' };

/**
 * A merge patch (RFC 7396) over a definition: null takes a field away, which then has its default. A schedule of another
 * kind replaces the whole schedule; the payload is always replaced whole.
 */
export interface DefinitionPatch {
  schedule?: Record<string, unknown>;
  bounds?: { [F in keyof ScheduleBounds]?: ScheduleBounds[F] | null };
  misfire?: { [F in keyof MisfirePolicy]?: MisfirePolicy[F] | null } | null;
  payload?: string;
  contentType?: string | null;
  description?: string | null;
  labels?: Record<string, string | null> | null;
}

/** One change of one job, keyed `CLUSTER/KEY` in the changes topic, so that the changes of a job are in order. */
export interface Change {
  v: 1;
  /** Names the request: a repeat has the same id. */
  id: string;
  cluster: string;
  key: string;
  /** Instant of the change by the clock of the API process, UTC ms: the cut between the old and the new version. */
  atMs: number;
  action: ChangeAction;
  ifVersion?: number;
  /** API process (incarnation) that waits for the answer. */
  replyTo?: string;
  /** The answer is to carry the job as this change left it. */
  wantsJob?: true;
  /** Line of a bulk operation. */
  operation?: { key: string; line: number };
}

/** Answer of the applier (`from: 'applier'`) or of the owner of the slot (`from: 'owner'`), keyed by `replyTo`. */
export interface Answer {
  v: 1;
  id: string;
  replyTo: string;
  from: 'applier' | 'owner';
  /** The applier sent the change to the fast path: the owner will answer as well. */
  ownerFollows: boolean;
  outcome: ChangeOutcome;
  /**
   * The job after the change, where it was wanted, lives and is small (`ANSWERED_JOB_CHARS`), and the change was decided in
   * this run of its batch; whoever needs it and does not find it here reads it.
   */
  job?: AnsweredJob;
}

/** A job as it is answered: without what only appliers need. */
export type AnsweredJob = Omit<Job, 'replay' | 'position'>;

/**
 * One change of a job for the owner of its slot. `record` is the encoded job record (base64) of the new version, null when
 * the job is deleted; `former` that of the version before, so that an owner who never saw it knows which times it had.
 */
export interface FastMessage {
  v: 1;
  id: string;
  shard: number;
  number: number;
  version: number;
  /** Occurrences after this instant belong to the new version, UTC ms. */
  cutMs: number;
  /** Next effective time of the new version at the cut, or null: none (paused, finished, terminated, deleted). */
  score: number | null;
  record: string | null;
  former: string | null;
  /** A single run outside the schedule: nothing else changes. */
  fire?: { requestKey: string; nominalMs: number };
  replyTo?: string;
  result: ChangeResult;
}

/**
 * Progress of a slot, keyed `progress` in its partition: all effective times up to `t` are published, behind a cursor or
 * recorded as misfired; all fast-path messages before `o` are covered. `lagging` names shards with a T of their own.
 * An adopt record, keyed `adopt`, is written by a new owner before it reads: only what stands before it counts.
 */
export interface Progress {
  v: 1;
  epoch: number;
  incarnation: string;
  /** Tick T, UTC ms. */
  t: number;
  /** Offset O in the slot's fast-path partition: the first message not covered. */
  o: number;
  /** Rises by one with each record of an epoch. */
  n: number;
  lagging?: Record<string, number>;
  /** Lineages of the trigger store in which every other shard was known to be right; absent: in none. */
  lineages?: readonly string[];
}

export interface Adopt {
  v: 1;
  epoch: number;
  incarnation: string;
  /** Names this takeover, of which an incarnation may do several under one epoch. */
  attempt: string;
}

/**
 * A cursor, keyed `SHARD-NUMBER` (or with the request for a run of its own): the job owes its occurrences with effective
 * times in (from, T]. A null value ends it.
 */
export interface Cursor {
  v: 1;
  shard: number;
  number: number;
  /** Effective time up to which all is paid, UTC ms: of this version (absent: nobody says which), and of those before. */
  fromMs: number;
  version?: number;
  /** Effective time up to which it owes, UTC ms. */
  toMs: number;
  /**
   * `behind`: later times of other jobs were committed first. `paused`: the job does not fire, and times after its cut had been
   * published when its owner heard of that, the last of them at `fromMs`: it stands until a version comes that begins later.
   */
  reason: 'misfire' | 'topic-missing' | 'behind' | 'paused';
  /**
   * What versions before the one in force had published beyond `fromMs`, after the cut that ended them: nominal times, and the
   * spread that makes them effective times, in ms.
   */
  fired?: { offsetMs: number; times: number[] }[];
}

export const PROGRESS_KEY = 'progress';
export const ADOPT_KEY = 'adopt';

const decoder = new TextDecoder();

export function encodeMessage(message: Change | Answer | FastMessage | Progress | Adopt | Cursor): Uint8Array {
  return Buffer.from(JSON.stringify(message));
}

/** Decodes what `encodeMessage` made; null for bytes of another form, which the reader counts and leaves. */
export function decodeMessage<T extends { v: 1 }>(bytes: Uint8Array): T | null {
  try {
    const parsed: unknown = JSON.parse(decoder.decode(bytes));
    return typeof parsed === 'object' && parsed !== null && 'v' in parsed && parsed.v === 1 ? (parsed as T) : null;
  } catch {
    return null;
  }
}

/** Key of a change: cluster names have no slash, so the first one parts the two. */
export function changeKey(cluster: string, key: string): string {
  return `${cluster}/${key}`;
}
