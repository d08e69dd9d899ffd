import { memoryTriggerStore } from '../../src/adapters/memory/trigger-store.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { TriggerStore } from '../../src/ports/trigger-store.ts';

/** Writes that replicas may lack when their primary dies. */
const LAG_MOST = 40;
/** Writes that are kept until all replicas have them. */
const KEPT = 400;

/** After a new connection nobody knows H for this long, in ms: every change reaches the owner. */
const DOUBTED_MS = 30_000;

type Write = (store: TriggerStore) => Promise<unknown>;

/** A Redis whose replicas follow behind: when the primary dies, what they lack is gone. */
export class Replicated {
  readonly store: TriggerStore;
  readonly #clock: Clock;
  #doubtedUntilMs = Number.NEGATIVE_INFINITY;
  #primary: TriggerStore;
  #replicas: TriggerStore[];
  /** Writes that the replicas have not taken yet, in order. */
  #writes: Write[] = [];

  constructor(clock: Clock, failovers: number) {
    this.#clock = clock;
    this.#primary = memoryTriggerStore(clock);
    this.#replicas = Array.from({ length: failovers }, () => memoryTriggerStore(clock));
    this.store = {
      add: async (...args) => {
        const results = await this.#write((store) => store.add(...args));
        return clock.monotonicMs() < this.#doubtedUntilMs
          ? results.map((result) => ({ ...result, reachesOwner: true }))
          : results;
      },
      claim: async (...args) => {
        const { failoversLeft } = this;
        const claimed = await this.#write((store) => store.claim(...args));
        return claimed.status === 'ok' ? { ...claimed, lineage: `with ${failoversLeft} replicas` } : claimed;
      },
      scan: (...args) => this.#write((store) => store.scan(...args)),
      writeBack: (...args) => this.#write((store) => store.writeBack(...args)),
      reset: (...args) => this.#write((store) => store.reset(...args)),
      restore: (...args) => this.#write((store) => store.restore(...args)),
      removeFinished: (...args) => this.#write((store) => store.removeFinished(...args)),
      sweep: (...args) => this.#write((store) => store.sweep(...args)),
      drop: (...args) => this.#write((store) => store.drop(...args)),
      finished: (...args) => this.#primary.finished(...args),
      compare: (...args) => this.#primary.compare(...args),
      count: (...args) => this.#primary.count(...args),
      timeMs: () => this.#primary.timeMs(),
      connections: () => 0,
      close: async () => {},
    };
  }

  get failoversLeft(): number {
    return this.#replicas.length;
  }

  #write<T>(write: (store: TriggerStore) => Promise<T>): Promise<T> {
    if (this.#replicas.length > 0) {
      this.#writes.push(write);
      if (this.#writes.length > KEPT) this.#follow(this.#writes.length - LAG_MOST);
    }
    return write(this.#primary);
  }

  #follow(writes: number): void {
    for (const write of this.#writes.splice(0, writes)) {
      for (const replica of this.#replicas) void write(replica);
    }
  }

  /** The primary dies; the next one lacks the last writes, at most so many. Answers how many. */
  failOver(lacks: number): number {
    const lost = Math.min(lacks, LAG_MOST, this.#writes.length);
    this.#follow(this.#writes.length - lost);
    this.#writes = [];
    this.#doubtedUntilMs = this.#clock.monotonicMs() + DOUBTED_MS;
    this.#primary = this.#replicas.shift()!;
    return lost;
  }
}
