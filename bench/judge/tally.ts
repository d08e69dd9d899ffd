/**
 * Counts every copy of every occurrence of a grid in one typed array, a byte per job and turn, and its lateness in
 * histograms. Copies are counted before anything is de-duplicated: a second one with another id is a copy all the same.
 *
 * For runs that are longer than memory the array is a ring of turns: `settle` judges the oldest ones and makes room.
 */
import type { LogSink } from '../reader/record-batches.ts';
import { type Grid, isDue, phaseOf } from './grid.ts';
import { Histogram } from './histogram.ts';
import { PendingTransactions } from './pending.ts';

export interface TallyPlan {
  grid: Grid;
  /** Occurrences with nominal times in (fromMs, toMs] are judged, UTC ms. */
  fromMs: number;
  toMs: number;
  /** Width of the steps of the series over time, in ms. */
  stepMs: number;
  /** Turns kept at once; absent: all of the span. */
  window?: number;
}

export interface Counts {
  /** Triggers in the log, those outside of the judged span included. */
  read: number;
  expected: number;
  fired: number;
  lost: number;
  duplicated: number;
  early: number;
  /** Triggers that no job of the grid has at their time, and records that are no triggers. */
  unexpected: number;
  /** Triggers that came after a later one of their job. */
  disordered: number;
  /** Transactions that were taken back, and the triggers in them: they are not seen by read-committed readers. */
  aborted_transactions: number;
  aborted_triggers: number;
}

const COPIES_MOST = 255;

export class Tally implements LogSink {
  readonly plan: TallyPlan;
  readonly lateness = new Histogram();
  /** Lateness by step of nominal time, from `fromMs` on. */
  readonly series: Histogram[];
  /** What was lost, by the same steps. */
  readonly lostSeries: Uint32Array;
  readonly counts: Counts = {
    read: 0,
    expected: 0,
    fired: 0,
    lost: 0,
    duplicated: 0,
    early: 0,
    unexpected: 0,
    disordered: 0,
    aborted_transactions: 0,
    aborted_triggers: 0,
  };
  /** Greatest time of the broker among triggers that were judged: for bursts, when the last one was in. */
  lastAtMs = 0;
  readonly #phases: Float64Array;
  readonly #copies: Uint8Array;
  readonly #newest: Int32Array;
  readonly #window: number;
  readonly #pending = new PendingTransactions();
  /** Turns below are settled. */
  #settled: number;

  constructor(plan: TallyPlan) {
    this.plan = plan;
    const { grid, fromMs, toMs, stepMs } = plan;
    this.#phases = Float64Array.from({ length: grid.jobs }, (_, job) => grid.anchorMs + phaseOf(grid, job));
    this.#settled = Math.max(0, Math.floor((fromMs - grid.anchorMs) / grid.periodMs) - 1);
    const turnsAll = Math.max(1, Math.floor((toMs - grid.anchorMs) / grid.periodMs) + 1 - this.#settled);
    this.#window = Math.min(plan.window ?? turnsAll, turnsAll);
    this.#copies = new Uint8Array(grid.jobs * this.#window);
    this.#newest = new Int32Array(grid.jobs).fill(-1);
    this.series = Array.from({ length: Math.ceil((toMs - fromMs) / stepMs) }, () => new Histogram());
    this.lostSeries = new Uint32Array(this.series.length);
  }

  trigger(job: number, nominalMs: number, atMs: number, transaction: number): void {
    const { firstKey, jobs } = this.plan.grid;
    const own = job - (firstKey ?? 0);
    if (firstKey !== undefined && (own < 0 || own >= jobs)) return;
    if (transaction === -1) this.#count(own, nominalMs, atMs);
    else this.#pending.add(transaction, own, nominalMs);
  }

  foreign(): void {
    this.counts.unexpected += 1;
  }

  /** The time of a trigger in a transaction is that of the mark that commits it: no reader has it before. */
  ended(transaction: number, committed: boolean, atMs: number): void {
    const held = this.#pending.take(transaction);
    if (held === null) return;
    if (committed) {
      for (let i = 0; i < held.length; i += 1) this.#count(held.jobs[i]!, held.nominalMs[i]!, atMs);
    } else {
      this.counts.aborted_transactions += 1;
      this.counts.aborted_triggers += held.length;
    }
    this.#pending.giveBack(held);
  }

  #count(job: number, nominalMs: number, atMs: number): void {
    const { grid, fromMs, toMs, stepMs } = this.plan;
    this.counts.read += 1;
    if (nominalMs <= fromMs || nominalMs > toMs) return;
    const { counts } = this;
    const turn = job < grid.jobs ? (nominalMs - this.#phases[job]!) / grid.periodMs : -1;
    if (turn !== Math.floor(turn) || turn < 0 || (grid.once === true && turn > 0)) {
      counts.unexpected += 1;
      return;
    }
    const kept = turn - this.#settled;
    if (kept < 0 || kept >= this.#window) {
      throw new Error(`a trigger is ${kept < 0 ? 'older' : 'newer'} than the turns that are kept: ${this.#window}`);
    }
    const cell = (turn % this.#window) * grid.jobs + job;
    if (this.#copies[cell]! < COPIES_MOST) this.#copies[cell]! += 1;
    if (turn < this.#newest[job]!) counts.disordered += 1;
    else this.#newest[job] = turn;
    counts.fired += 1;
    const lateMs = atMs - nominalMs;
    if (lateMs < 0) counts.early += 1;
    this.lateness.add(lateMs);
    this.series[Math.floor((nominalMs - fromMs - 1) / stepMs)]!.add(lateMs);
    if (atMs > this.lastAtMs) this.lastAtMs = atMs;
  }

  /** Judges all turns whose nominal times of every job lie at or before `upToMs`, and takes their place for later ones. */
  settle(upToMs: number): void {
    const { grid, fromMs, toMs, stepMs } = this.plan;
    const until = Math.min(upToMs, toMs);
    const last = upToMs >= toMs ? Math.floor((toMs - grid.anchorMs) / grid.periodMs) : this.#lastWhole(until);
    if (last < this.#settled) return;
    const { counts } = this;
    for (let turn = this.#settled; turn <= last; turn += 1) {
      const row = (turn % this.#window) * grid.jobs;
      for (let job = 0; job < grid.jobs; job += 1) {
        const copies = this.#copies[row + job]!;
        const nominalMs = this.#phases[job]! + turn * grid.periodMs;
        if (nominalMs <= fromMs || nominalMs > toMs) continue;
        if (!isDue(grid, job, turn, nominalMs)) {
          counts.unexpected += copies;
          continue;
        }
        counts.expected += 1;
        if (copies === 0) {
          counts.lost += 1;
          this.lostSeries[Math.floor((nominalMs - fromMs - 1) / stepMs)]! += 1;
        } else counts.duplicated += copies - 1;
      }
      this.#copies.fill(0, row, row + grid.jobs);
    }
    this.#settled = last + 1;
  }

  #lastWhole(untilMs: number): number {
    const { grid } = this.plan;
    return Math.floor((untilMs - grid.anchorMs - (grid.periodMs - 1)) / grid.periodMs);
  }

  /** Judges all that is left. */
  finish(): Counts {
    this.settle(this.plan.toMs);
    return this.counts;
  }
}
