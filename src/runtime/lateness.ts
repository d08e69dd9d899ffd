/** Upper bounds (inclusive) of the lateness buckets in ms; the last bucket, without a bound, follows them. */
export const LATENESS_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000] as const;

const BUCKETS = LATENESS_BOUNDS_MS.length + 1;
const LAST_BOUND_MS = 10_000;

/** Bucket of each whole number of ms up to the last bound, so that finding it is one read. 1 and less -> 0, 2 -> 1, 3 -> 2. */
const BUCKET_OF = Uint8Array.from({ length: LAST_BOUND_MS + 1 }, (_, ms) =>
  LATENESS_BOUNDS_MS.findIndex((bound) => ms <= bound),
);

export interface LatenessLabels {
  cluster: string;
  slot: string;
}

export interface LatenessSeries {
  labels: LatenessLabels;
  /** Triggers per bucket, then the sum of their lateness in ms per bucket. */
  counts: Float64Array;
  sumsMs: Float64Array;
}

/**
 * Lateness by logical cluster and slot, counted in plain arrays: it is called for every batch of triggers, at worst for
 * every trigger. The labels asked for last are remembered by identity, which spares a caller with constant labels the maps.
 */
export class LatenessTable {
  readonly #byCluster = new Map<string, Map<string, LatenessSeries>>();
  #last: LatenessSeries | null = null;
  #lastLabels: LatenessLabels | null = null;

  record(ms: number, n: number, labels: LatenessLabels): void {
    if (labels !== this.#lastLabels || this.#last === null) {
      this.#last = this.#seriesOf(labels);
      this.#lastLabels = labels;
    }
    const bucket = ms <= 0 ? 0 : ms > LAST_BOUND_MS ? BUCKETS - 1 : BUCKET_OF[Math.ceil(ms)]!;
    this.#last.counts[bucket]! += n;
    this.#last.sumsMs[bucket]! += n * ms;
  }

  series(): LatenessSeries[] {
    return [...this.#byCluster.values()].flatMap((slots) => [...slots.values()]);
  }

  /** Forgets everything, for tables that are forwarded as deltas. */
  clear(): void {
    this.#byCluster.clear();
    this.#last = null;
    this.#lastLabels = null;
  }

  #seriesOf(labels: LatenessLabels): LatenessSeries {
    let slots = this.#byCluster.get(labels.cluster);
    if (slots === undefined) {
      slots = new Map();
      this.#byCluster.set(labels.cluster, slots);
    }
    let series = slots.get(labels.slot);
    if (series === undefined) {
      series = {
        labels: { cluster: labels.cluster, slot: labels.slot },
        counts: new Float64Array(BUCKETS),
        sumsMs: new Float64Array(BUCKETS),
      };
      slots.set(labels.slot, series);
    }
    return series;
  }
}
