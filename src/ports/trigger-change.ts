export interface TriggerChange {
  number: number;
  /** Full version of the job. */
  version: number;
  /** Next effective time, UTC ms; null: the job has no member (paused, finished, terminated, deleted). */
  score: number | null;
  /** The version before owes its times up to here, UTC ms; absent: it owes none. */
  cutMs?: number;
  /** Encoded job record (`core/record.ts`); null: the job is deleted, only a tombstone with the version stays. */
  record: Uint8Array | null;
}

export interface AddResult {
  outcome: 'applied' | 'same' | 'older';
  /**
   * The new score, or that of the removed member, is at or below H, or that of the removed member is not after the cut: the owner
   * of the slot must be told. (H is behind the cut where nobody has scanned for as long as a scan reaches.)
   */
  reachesOwner: boolean;
}

export interface Stale {
  status: 'stale';
  epoch: number;
}
