export interface EndedJob {
  number: number;
  version: number;
  /** As in `FinishedJob`. */
  oneShotOf?: string;
  /** Its entry, which stays until the member is gone; absent: its score is 0. */
  entry?: number;
}

/** One shard of the slot, as its owner knows it. */
export class ShardRun {
  readonly id: number;
  /** H as the store answered it last: what the next scan expects there. */
  storedMs: number;
  /** H that a scan without an answer would have set; null: every scan was answered. */
  triedMs: number | null = null;
  /** The scan or write-back that runs: one at a time, so that answers and effects have one order. */
  busy: Promise<void> | null = null;
  /** What runs is a scan: changes of the shard wait for its answer, which may show the version before. */
  scanning = false;
  /** Entries whose score is to be written. */
  queue: number[] = [];
  /** Finished jobs for the recorder. */
  ended: EndedJob[] = [];
  /** Others of score 0 may be there: the store is to be asked. */
  finished = true;
  /** All members are to be read again. */
  doubted = false;
  /** All jobs are to be compared at once: the store may have gone back. */
  suspect = false;
  /** Numbers of jobs whose member was not where it should be: they are compared soon. */
  doubtful = new Set<number>();
  /** Called when horizon or loss change: the slot has a horizon of its own. */
  changed: () => void = () => {};
  /** The copy of the store in which the shard was last known to be right. */
  lineage = '';
  private horizon: number;
  private isLost = false;

  constructor(id: number, horizonMs: number) {
    this.id = id;
    this.storedMs = horizonMs;
    this.horizon = horizonMs;
  }

  /** All members up to here were taken up, UTC ms. */
  get horizonMs(): number {
    return this.horizon;
  }

  set horizonMs(ms: number) {
    this.horizon = ms;
    this.changed();
  }

  /**
   * The store has not all of the shard: it is neither scanned nor written to before it is rebuilt. Its horizon stands, and with
   * it a T of its own; what lies beyond waits outside the wheel.
   */
  get lost(): boolean {
    return this.isLost;
  }

  set lost(lost: boolean) {
    this.isLost = lost;
    this.changed();
  }
}

/**
 * The shards of a slot by id. Their least horizon is asked for with each tick of the wheel and must not cost a look at each of
 * them, of which a slot with millions of idle jobs has hundreds.
 */
export class Shards extends Map<number, ShardRun> {
  private least: number | null = null;
  private leastOfAll: number | null = null;

  /** The least horizon of all shards, lost ones too, UTC ms. */
  get reachMs(): number {
    if (this.leastOfAll === null) {
      this.leastOfAll = Number.POSITIVE_INFINITY;
      for (const shard of this.values()) this.leastOfAll = Math.min(this.leastOfAll, shard.horizonMs);
    }
    return this.leastOfAll;
  }

  /** The least horizon of the shards that keep up (one that is lost has a T of its own), UTC ms; Infinity: there are none. */
  get horizonMs(): number {
    if (this.least === null) {
      this.least = Number.POSITIVE_INFINITY;
      for (const shard of this.values()) if (!shard.lost) this.least = Math.min(this.least, shard.horizonMs);
    }
    return this.least;
  }

  override set(id: number, shard: ShardRun): this {
    shard.changed = () => this.forget();
    this.forget();
    return super.set(id, shard);
  }

  override delete(id: number): boolean {
    this.forget();
    return super.delete(id);
  }

  override clear(): void {
    this.forget();
    super.clear();
  }

  private forget(): void {
    this.least = null;
    this.leastOfAll = null;
  }
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
