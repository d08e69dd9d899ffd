export interface TriggerChange {
  number: number;
  /** Full version of the job. */
  version: number;
  /** Next effective time, UTC ms; null: the job has no member (paused, finished, terminated, deleted). */
  score: number | null;
  /** Encoded job record (`core/record.ts`); null: the job is deleted, only a tombstone with the version stays. */
  record: Uint8Array | null;
}

export interface AddResult {
  outcome: 'applied' | 'same' | 'older';
  /** The new score, or that of the removed member, is at or below H: the owner of the slot must be told. */
  reachesOwner: boolean;
}

export interface Stale {
  status: 'stale';
  epoch: number;
}
