import type { RebuildStore } from './rebuild-store.ts';
import type { AddResult, Stale, TriggerChange } from './trigger-change.ts';

export type { AddResult, Stale, TriggerChange } from './trigger-change.ts';

/**
 * The trigger store: per shard one set of members scored by next effective time, the compact job records, the horizon H
 * (end of the last range scanned) and the epoch of the shard's owner. Redis in cluster mode (one hash slot per shard, one
 * script per method), tables in embedded mode. It can be rebuilt from the job store and progress at any time.
 *
 * Contract
 * - A member is (number, version) packed (`core/member.ts`); its score is the next *effective* time in UTC ms, or 0 when
 *   it is finished. A job has at most one member; `record` carries the full version.
 * - Every method that changes a shard is atomic. An older version or epoch changes nothing and says so.
 * - H only moves by `scan`. Whoever sets a score learns of the members that now stand at or below H, since no scan will
 *   find those: they must reach the owner by another way.
 * - A shard is *whole* when everything that was ever written to it is there. One that is new, was emptied, or lost a part of
 *   itself is not, until its owner has rebuilt it (`rebuild-store.ts`): it is not scanned, and every change reaches the owner.
 */
export interface TriggerStore extends RebuildStore {
  /**
   * Adds, changes or removes members of one shard, in order. For each: an older version than the record's answers `older`;
   * the record's own version answers `same` with the `reachesOwner` of the first time; else the member that the record
   * names is removed, the new one added (unless `score` is null) and the record replaced. A score of 0 is at or below H, and what a removed member owes before `cutMs` reaches the owner too. In a
   * shard that is not whole nobody knows H or the member that was there: every change that is applied reaches the owner; so it does for 30 s after a connection was made anew (`connections`).
   */
  add(shard: number, changes: readonly TriggerChange[]): Promise<AddResult[]>;
  /** Takes the shard for an epoch: raises the stored epoch, or answers `stale` when a higher one stands there. */
  claim(shard: number, epoch: number): Promise<Claimed | Stale>;
  /**
   * Moves H from `expectedHorizonMs` to `horizonMs` and answers the members in (fromMs, horizonMs], sorted by score, with
   * their records. `fromMs` is the expected horizon in the normal run, 0 for a first scan after a takeover. With `build` it
   * ends that rebuild: the shard is whole from this very step on.
   */
  scan(shard: number, request: ScanRequest): Promise<ScanResult | Stale>;
  /** Sets the scores of members that exist, of this very version; others are left out and named as `missing`. */
  writeBack(shard: number, epoch: number, scores: readonly MemberScore[]): Promise<WriteBackResult | Stale>;
  /** Members with score 0, with the full version of their records, at most `limit`. */
  finished(shard: number, limit: number): Promise<{ number: number; version: number }[]>;
  /**
   * Removes members of jobs that are recorded as finished in these versions, whatever their score, with their records; no
   * tombstone stays. A version that is finished never fires again, so an owner need not have written its score.
   */
  removeFinished(shard: number, members: readonly { number: number; version: number }[]): Promise<void>;
  /** Members of a shard, and those at or below a time (0: finished ones). */
  count(shard: number): Promise<{ members: number; finished: number }>;
  /** Forgets tombstones of removed jobs older than `beforeMs` (store's time); answers how many. */
  sweep(shard: number, beforeMs: number, limit: number): Promise<number>;
  /** Removes the shard whole. */
  drop(shard: number): Promise<void>;
  /** The store's own wall time, UTC ms. */
  timeMs(): Promise<number>;
  close(): Promise<void>;
}

export interface Claimed {
  status: 'ok';
  horizonMs: number;
  /** The epoch that stood there before; 0: none. */
  formerEpoch: number;
  whole: boolean;
  /**
   * Names the history that this copy of the shard has: another one than before when the server was restarted or a replica took
   * its place, so that writes may be missing. It may change where nothing is missing.
   */
  lineage: string;
}

export interface ScanRequest {
  epoch: number;
  expectedHorizonMs: number;
  /** Members with a score above this are answered. */
  fromMs: number;
  /** The new H; never below the expected one. */
  horizonMs: number;
  /** The rebuild that this scan ends, as `reset` was given it. */
  build?: number;
}

/** `not-whole`: a part of the shard is not there, or another rebuild than the named one stands there; nothing was changed. */
export type ScanResult =
  | { status: 'ok'; due: DueMember[] }
  | { status: 'horizon-moved'; horizonMs: number }
  | { status: 'not-whole' };

export interface DueMember {
  number: number;
  /** The 16 bits of the version that the member carries. */
  memberVersion: number;
  score: number;
  record: Uint8Array;
}

export interface MemberScore {
  number: number;
  version: number;
  /** Next effective time in UTC ms, 0 = finished. */
  score: number;
}

export interface WriteBackResult {
  status: 'ok';
  /** Indexes into the request of members whose new score is at or below H (and not 0): they stay in the wheel. */
  within: number[];
  /** Indexes of those that did not exist in this version. */
  missing: number[];
}
