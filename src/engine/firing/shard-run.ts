/** One shard of the slot, as its owner knows it. */
export interface ShardRun {
  id: number;
  /** All members up to here were taken up, UTC ms. */
  horizonMs: number;
  /** H as the store answered it last: what the next scan expects there. */
  storedMs: number;
  /** H that a scan without an answer would have set; null: every scan was answered. */
  triedMs: number | null;
  /** The scan or write-back that runs: one at a time, so that answers and effects have one order. */
  busy: Promise<void> | null;
  /** What runs is a scan: changes of the shard wait for its answer, which may show the version before. */
  scanning: boolean;
  /** Entries whose score is to be written. */
  queue: number[];
  /** Members whose score this owner has set to 0, for the recorder. */
  ended: { number: number; version: number }[];
  /** Others of score 0 may be there: the store is to be asked. */
  finished: boolean;
  /**
   * The store has not all of the shard: it is neither scanned nor written to before it is rebuilt. Its horizon stands, and with
   * it a T of its own; what lies beyond waits outside the wheel.
   */
  lost: boolean;
  /** All members are to be read again. */
  doubted: boolean;
  /** All jobs are to be compared at once: the store may have gone back. */
  suspect: boolean;
  /** Numbers of jobs whose member was not where it should be: they are compared soon. */
  doubtful: Set<number>;
}

export function newShardRun(id: number, horizonMs: number): ShardRun {
  return {
    id,
    horizonMs,
    storedMs: horizonMs,
    triedMs: null,
    busy: null,
    scanning: false,
    queue: [],
    ended: [],
    finished: true,
    lost: false,
    doubted: false,
    suspect: false,
    doubtful: new Set(),
  };
}

/** Runs one thing on a shard after whatever runs there. */
export async function alone<T>(shard: ShardRun, run: () => Promise<T>): Promise<T> {
  while (shard.busy !== null) await shard.busy;
  const result = run();
  const done = result.then(
    () => {},
    () => {},
  );
  shard.busy = done;
  try {
    return await result;
  } finally {
    if (shard.busy === done) shard.busy = null;
  }
}
