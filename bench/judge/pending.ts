/** Triggers of transactions that have no end yet, by producer, in typed arrays that are used again. */
export class Held {
  jobs = new Int32Array(4096);
  nominalMs = new Float64Array(4096);
  length = 0;

  add(job: number, nominalMs: number): void {
    if (this.length === this.jobs.length) this.#grow();
    this.jobs[this.length] = job;
    this.nominalMs[this.length] = nominalMs;
    this.length += 1;
  }

  #grow(): void {
    const jobs = new Int32Array(this.length * 2);
    jobs.set(this.jobs);
    const nominalMs = new Float64Array(this.length * 2);
    nominalMs.set(this.nominalMs);
    this.jobs = jobs;
    this.nominalMs = nominalMs;
  }
}

export class PendingTransactions {
  readonly #open = new Map<number, Held>();
  readonly #free: Held[] = [];
  #last: Held | null = null;
  #lastProducer = -1;

  add(producer: number, job: number, nominalMs: number): void {
    if (producer !== this.#lastProducer || this.#last === null) {
      this.#lastProducer = producer;
      this.#last = this.#of(producer);
    }
    this.#last.add(job, nominalMs);
  }

  /** The triggers of a producer's open transaction, which is forgotten; null if it has none here. */
  take(producer: number): Held | null {
    const held = this.#open.get(producer) ?? null;
    this.#open.delete(producer);
    if (producer === this.#lastProducer) this.#last = null;
    return held;
  }

  giveBack(held: Held): void {
    held.length = 0;
    this.#free.push(held);
  }

  #of(producer: number): Held {
    let held = this.#open.get(producer);
    if (held === undefined) {
      held = this.#free.pop() ?? new Held();
      this.#open.set(producer, held);
    }
    return held;
  }
}
