/** Lateness in buckets of one ms, up to `LINEAR_MS`; what is later is kept by its maximum, and stands in the last bucket. */
export const LINEAR_MS = 16_384;

export interface Lateness {
  p50: number;
  p99: number;
  p999: number;
  max: number;
}

export class Histogram {
  readonly counts = new Uint32Array(LINEAR_MS + 1);
  count = 0;
  max = 0;

  /** Whole ms; a time before the effective one counts as 0. */
  add(ms: number): void {
    this.counts[ms < 0 ? 0 : Math.min(ms, LINEAR_MS)]! += 1;
    this.count += 1;
    if (ms > this.max) this.max = ms;
  }

  merge(other: Pick<Histogram, 'counts' | 'count' | 'max'>): void {
    for (let i = 0; i <= LINEAR_MS; i += 1) this.counts[i]! += other.counts[i]!;
    this.count += other.count;
    this.max = Math.max(this.max, other.max);
  }

  /** Nearest rank: the least ms that a share `q` of all is at or below; the maximum where that lies in the last bucket. */
  quantile(q: number): number {
    let rank = Math.max(1, Math.ceil(q * this.count));
    for (let ms = 0; ms < LINEAR_MS; ms += 1) {
      rank -= this.counts[ms]!;
      if (rank <= 0) return ms;
    }
    return this.max;
  }

  /** Share of all that is at or below `ms`, 0 to 1. */
  shareWithin(ms: number): number {
    let sum = 0;
    for (let i = 0; i <= Math.min(ms, LINEAR_MS - 1); i += 1) sum += this.counts[i]!;
    return this.count === 0 ? 0 : ms >= this.max ? 1 : sum / this.count;
  }

  summary(): Lateness {
    if (this.count === 0) return { p50: 0, p99: 0, p999: 0, max: 0 };
    return { p50: this.quantile(0.5), p99: this.quantile(0.99), p999: this.quantile(0.999), max: this.max };
  }
}
