/**
 * Counts every copy of every occurrence, before anything is de-duplicated: one byte for each occurrence of a rate, an entry for
 * each job that fires once. Lateness is kept by the nominal time, in steps, so that any span can be judged afterwards.
 */
import { PendingTransactions } from '../../bench/judge/pending.ts';
import type { LogSink } from '../../bench/reader/record-batches.ts';
import type { Rates } from './load.ts';

/** Numbers from here on are jobs that fire once. */
export const ONCE_FROM = 100_000_000;
/** Spans are judged from and to whole steps, in ms. */
export const STEP_MS = 100;
const COPIES_MOST = 255;

export const stepped = (ms: number): number => Math.floor(ms / STEP_MS) * STEP_MS;

export interface Verdict {
  expected: number;
  lost: number;
  duplicatedIds: number;
  /** Copies beyond the first. */
  duplicatedCopies: number;
  early: number;
  /** Triggers that no job has at their time, and copies under another id than the first. */
  unexpected: number;
  maxLatenessMs: number;
  /** When the last trigger of the span was published that was later than `LATE_MS`, UTC ms; 0: there was none. */
  lastLateMs: number;
}

export interface OnceSeen {
  copies: number;
  /** Nominal time, UTC ms. */
  nominalMs: number;
  /** When the first copy was published, UTC ms. */
  atMs: number;
}

/** A trigger that is later than this has not been served as usual, in ms. */
export const LATE_MS = 500;

export class Tally implements LogSink {
  readonly once = new Map<number, OnceSeen>();
  read = 0;
  foreignRecords = 0;
  abortedTransactions = 0;
  readonly #rates: Rates;
  readonly #fromMs: number;
  readonly #first: Float64Array;
  readonly #offset: Float64Array;
  readonly #copies: Uint8Array;
  readonly #places = new Map<number, number>();
  readonly #maxLateness: Float64Array;
  readonly #early: Uint32Array;
  readonly #unexpected: Uint32Array;
  readonly #pending = new PendingTransactions();
  readonly #placesPending = new Map<number, number[]>();

  /** Keeps occurrences in [fromMs, fromMs + spanMs); later ones are not counted. */
  constructor(rates: Rates, fromMs: number, spanMs: number) {
    this.#rates = rates;
    this.#fromMs = fromMs;
    const jobs = rates.everyMs.length;
    this.#first = new Float64Array(jobs);
    this.#offset = new Float64Array(jobs + 1);
    for (let job = 0; job < jobs; job += 1) {
      const first = this.#turnAfter(job, fromMs - 1);
      this.#first[job] = first;
      this.#offset[job + 1] = this.#offset[job]! + this.#turnAfter(job, fromMs + spanMs - 1) - first;
    }
    this.#copies = new Uint8Array(this.#offset[jobs]!);
    const steps = Math.ceil(spanMs / STEP_MS) + 1;
    this.#maxLateness = new Float64Array(steps).fill(Number.NEGATIVE_INFINITY);
    this.#early = new Uint32Array(steps);
    this.#unexpected = new Uint32Array(steps);
  }

  /** The first turn whose time is after this one. */
  #turnAfter(job: number, ms: number): number {
    return Math.max(0, Math.floor((ms - this.#rates.anchorMs[job]!) / this.#rates.everyMs[job]!) + 1);
  }

  trigger(job: number, nominalMs: number, atMs: number, transaction: number, place: number): void {
    if (transaction === -1) {
      this.#count(job, nominalMs, atMs, place);
      return;
    }
    this.#pending.add(transaction, job, nominalMs);
    const places = this.#placesPending.get(transaction);
    if (places === undefined) this.#placesPending.set(transaction, [place]);
    else places.push(place);
  }

  foreign(): void {
    this.foreignRecords += 1;
  }

  /** No read-committed reader has a trigger before the mark that commits it, so that mark's time is the trigger's. */
  ended(transaction: number, committed: boolean, atMs: number): void {
    const held = this.#pending.take(transaction);
    const places = this.#placesPending.get(transaction);
    this.#placesPending.delete(transaction);
    if (held === null || places === undefined) return;
    if (!committed) this.abortedTransactions += 1;
    else for (let i = 0; i < held.length; i += 1) this.#count(held.jobs[i]!, held.nominalMs[i]!, atMs, places[i]!);
    this.#pending.giveBack(held);
  }

  #count(job: number, nominalMs: number, atMs: number, place: number): void {
    this.read += 1;
    if (job >= ONCE_FROM) {
      this.#countOnce(job, nominalMs, atMs);
      return;
    }
    const step = this.#step(nominalMs);
    if (step < 0 || step >= this.#early.length) return;
    const everyMs = this.#rates.everyMs[job];
    const turn = everyMs === undefined ? -1 : (nominalMs - this.#rates.anchorMs[job]!) / everyMs;
    const cell = turn - this.#first[job]! + this.#offset[job]!;
    // A job that is not known has no cell: what is compared with it is false.
    const isKept = cell >= this.#offset[job]! && cell < this.#offset[job + 1]!;
    if (turn !== Math.floor(turn) || !isKept) {
      if (nominalMs >= this.#fromMs) this.#unexpected[step]! += 1;
      return;
    }
    if (this.#copies[cell]! < COPIES_MOST) this.#copies[cell]! += 1;
    const known = this.#places.get(job);
    if (known === undefined) this.#places.set(job, place);
    else if (known !== place) this.#unexpected[step]! += 1;
    const lateMs = atMs - nominalMs;
    if (lateMs < 0) this.#early[step]! += 1;
    // A second copy is late by nature; it is counted as a copy.
    if (this.#copies[cell] === 1 && lateMs > this.#maxLateness[step]!) this.#maxLateness[step] = lateMs;
  }

  #countOnce(job: number, nominalMs: number, atMs: number): void {
    const seen = this.once.get(job);
    if (seen === undefined) this.once.set(job, { copies: 1, nominalMs, atMs });
    else seen.copies += 1;
  }

  #step(ms: number): number {
    return Math.floor((ms - this.#fromMs) / STEP_MS);
  }

  /** Judges the occurrences in [fromMs, toMs), both of them whole steps after the beginning. */
  verdict(fromMs: number, toMs: number): Verdict {
    const result = { expected: 0, lost: 0, duplicatedIds: 0, duplicatedCopies: 0, early: 0, unexpected: 0 };
    const jobs = this.#rates.everyMs.length;
    for (let job = 0; job < jobs; job += 1) {
      const from = Math.max(this.#turnAfter(job, fromMs - 1), this.#first[job]!);
      const upTo = this.#turnAfter(job, toMs - 1);
      for (let turn = from; turn < upTo; turn += 1) {
        const copies = this.#copies[turn - this.#first[job]! + this.#offset[job]!]!;
        result.expected += 1;
        if (copies === 0) result.lost += 1;
        else if (copies > 1) {
          result.duplicatedIds += 1;
          result.duplicatedCopies += copies - 1;
        }
      }
    }
    let maxLatenessMs = 0;
    let lastLateMs = 0;
    for (let step = Math.max(0, this.#step(fromMs)); step < this.#step(toMs); step += 1) {
      result.early += this.#early[step] ?? 0;
      result.unexpected += this.#unexpected[step] ?? 0;
      const lateMs = this.#maxLateness[step] ?? Number.NEGATIVE_INFINITY;
      maxLatenessMs = Math.max(maxLatenessMs, lateMs);
      if (lateMs > LATE_MS) lastLateMs = Math.max(lastLateMs, this.#fromMs + (step + 1) * STEP_MS + lateMs);
    }
    return { ...result, maxLatenessMs: Math.round(maxLatenessMs), lastLateMs: Math.round(lastLateMs) };
  }
}
