/**
 * The judge of demos and benchmarks: compares what an independent reader saw with what the oracle expects. Copies are
 * counted before ids are de-duplicated; lateness counts from the effective time, so a stall is not hidden by the triggers
 * that it kept from being sent.
 */
import { type OracleSchedule, occurrences } from './oracle/occurrences.ts';

/** One rule of a job: it holds for occurrences in (afterMs, upToMs]. */
export interface Segment {
  schedule: OracleSchedule;
  afterMs: number;
  upToMs: number;
  /** These may fire or not: between a request and its answer, where the answer does not name the instant of the change. */
  optional?: boolean;
}

export interface Verdict {
  fired: number;
  expected: number;
  lost: number;
  duplicated: number;
  early: number;
  /**
   * Fires that no rule of the job has: of an older version after its cut, or after a pause or delete. A copy under another
   * execution id is one too, since nobody could drop it.
   */
  unexpected: number;
  lateness_ms: { p50: number; p99: number; p999: number; max: number };
}

interface Seen {
  id: string;
  copies: number;
  /** Copies with another id than the first. */
  foreign: number;
  /** Time of the first copy, UTC ms. */
  atMs: number;
}

export class Judge {
  readonly #seen = new Map<string, Map<number, Seen>>();
  /** Newest nominal time seen, UTC ms: for waiting until the last expected one is in. */
  newestMs = 0;

  /** One copy of one trigger, as the reader got it. `id` is the execution id, `SHARD-NUMBER-NOMINALMS`. */
  observe(key: string, id: string, atMs: number): void {
    const nominalMs = Number(id.split('-')[2]);
    let job = this.#seen.get(key);
    if (job === undefined) {
      job = new Map();
      this.#seen.set(key, job);
    }
    const seen = job.get(nominalMs);
    if (seen === undefined) job.set(nominalMs, { id, copies: 1, foreign: 0, atMs });
    else {
      seen.copies += 1;
      if (seen.id !== id) seen.foreign += 1;
    }
    if (nominalMs > this.newestMs) this.newestMs = nominalMs;
  }

  /** Judges all occurrences with nominal times in (fromMs, toMs]; jobs that are not named must not have fired there. */
  verdict(jobs: ReadonlyMap<string, readonly Segment[]>, fromMs: number, toMs: number): Verdict {
    const result = { fired: 0, expected: 0, lost: 0, duplicated: 0, early: 0, unexpected: 0 };
    const lateness: number[] = [];
    for (const [key, segments] of jobs) {
      const seen = this.#seen.get(key);
      const expected = new Set<number>();
      const allowed = new Set<number>();
      for (const { schedule, afterMs, upToMs, optional } of segments) {
        const into = optional ? allowed : expected;
        for (const at of occurrences(schedule, Math.max(afterMs, fromMs), Math.min(upToMs, toMs))) into.add(at);
      }
      result.expected += expected.size;
      for (const at of expected) if (!seen?.has(at)) result.lost += 1;
      for (const [nominalMs, { copies, foreign, atMs }] of seen ?? []) {
        if (nominalMs <= fromMs || nominalMs > toMs) continue;
        result.fired += 1;
        result.duplicated += copies - 1;
        result.unexpected += foreign;
        if (!expected.has(nominalMs) && !allowed.has(nominalMs)) result.unexpected += 1;
        if (atMs < nominalMs) result.early += 1;
        lateness.push(atMs - nominalMs);
      }
    }
    for (const [key, seen] of this.#seen) {
      if (jobs.has(key)) continue;
      for (const nominalMs of seen.keys()) if (nominalMs > fromMs && nominalMs <= toMs) result.unexpected += 1;
    }
    return { ...result, lateness_ms: percentiles(lateness) };
  }
}

/** Nearest-rank percentiles; all 0 for no values. */
export function percentiles(values: number[]): { p50: number; p99: number; p999: number; max: number } {
  const sorted = Float64Array.from(values).sort();
  const at = (q: number): number => sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? 0;
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1) };
}
