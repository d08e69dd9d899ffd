import { Judge } from '../judge.ts';
import type { LogSink } from '../reader/record-batches.ts';
import { PendingTransactions } from './pending.ts';

/** Hands what the log holds to the judge of mixed jobs; the times of transactions are those of their marks. */
export class JudgeSink implements LogSink {
  readonly judge = new Judge();
  readonly #keys: readonly string[];
  readonly #pending = new PendingTransactions();
  /** Records that are no triggers of these jobs. */
  unknown = 0;

  /** `keys` by the number that ends them. */
  constructor(keys: readonly string[]) {
    this.#keys = keys;
  }

  trigger(job: number, nominalMs: number, atMs: number, transaction: number): void {
    if (transaction === -1) this.#observe(job, nominalMs, atMs);
    else this.#pending.add(transaction, job, nominalMs);
  }

  foreign(): void {
    this.unknown += 1;
  }

  ended(transaction: number, committed: boolean, atMs: number): void {
    const held = this.#pending.take(transaction);
    if (held === null) return;
    if (committed) for (let i = 0; i < held.length; i += 1) this.#observe(held.jobs[i]!, held.nominalMs[i]!, atMs);
    this.#pending.giveBack(held);
  }

  /** Every copy counts as one, under whatever id, so the ids need not be kept. */
  #observe(job: number, nominalMs: number, atMs: number): void {
    const key = this.#keys[job];
    if (key === undefined) this.unknown += 1;
    else this.judge.observe(key, `${job}-${job}-${nominalMs}`, atMs);
  }
}
