/** Whose timer it is: those of the dead never run, those of the frozen run when they are thawed. */
export interface TimerOwner {
  dead: boolean;
  /** True time at which it is thawed, in ms; 0: it is not frozen. */
  frozenUntilMs: number;
}

interface Timer {
  dueMs: number;
  /** When it was asked to run: `dueMs` is later where waits are stretched. */
  askedMs: number;
  order: number;
  run: (() => void) | null;
  owner: TimerOwner | null;
}

/** Promises settle: one turn of the event loop, in which no simulated time passes. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Simulated true time: it jumps from timer to timer, each at its own instant, with everything settled before the next. */
export class VirtualTime {
  /** ms since the beginning of the simulation; whole. */
  nowMs = 0;
  steps = 0;
  #order = 0;
  #heap: Timer[] = [];

  /** Calls `run` after `ms`, and at the latest after `stretchedMs`; the answer cancels it. */
  after(ms: number, run: () => void, owner: TimerOwner | null = null, stretchedMs = ms): () => void {
    if (Number.isNaN(ms)) throw new RangeError('a wait of NaN ms');
    const askedMs = this.nowMs + Math.ceil(Math.max(0, ms));
    const dueMs = Math.max(askedMs, this.nowMs + Math.ceil(stretchedMs));
    const timer: Timer = { dueMs, askedMs, order: this.#order++, run, owner };
    if (dueMs !== Number.POSITIVE_INFINITY) this.#push(timer);
    return () => {
      timer.run = null;
    };
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Waits that were stretched end when they were asked to. */
  hurry(): void {
    const timers = this.#heap;
    this.#heap = [];
    for (const timer of timers) {
      if (timer.run === null) continue;
      timer.dueMs = Math.max(this.nowMs, timer.askedMs);
      this.#push(timer);
    }
  }

  /** Runs everything that falls due up to an instant, or until `stop` says so. */
  async runTo(endMs: number, stop: () => boolean): Promise<void> {
    await settled();
    while (!stop()) {
      const next = this.#heap[0];
      if (next === undefined || next.dueMs > endMs) break;
      this.#pop();
      const { run, owner } = next;
      if (run === null || owner?.dead === true) continue;
      if (owner !== null && owner.frozenUntilMs > next.dueMs) {
        next.dueMs = owner.frozenUntilMs;
        next.askedMs = owner.frozenUntilMs;
        this.#push(next);
        continue;
      }
      this.nowMs = Math.max(this.nowMs, next.dueMs);
      this.steps += 1;
      next.run = null;
      run();
      await settled();
    }
    if (!stop()) this.nowMs = Math.max(this.nowMs, endMs);
  }

  #push(timer: Timer): void {
    const heap = this.#heap;
    let at = heap.push(timer) - 1;
    while (at > 0) {
      const parent = (at - 1) >>> 1;
      if (!before(timer, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = timer;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child += 1;
      if (!before(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}

function before(a: Timer, b: Timer): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}
