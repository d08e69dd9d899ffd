/** The one source of chance of a simulation: the same seed gives the same numbers, in the order in which they are asked for. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995) >>> 0;
    for (let i = 0; i < 4; i += 1) this.next();
  }

  /** In [0, 1): mulberry32 (Tommy Ettinger, public domain). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number from `least` to `most`, both inclusive. */
  int(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  pick<T>(all: readonly T[]): T {
    return all[Math.floor(this.next() * all.length)]!;
  }

  /** Time until the next of events that come by chance, `meanMs` apart on average; whole ms, at least 1. */
  wait(meanMs: number): number {
    return Math.max(1, Math.round(-Math.log(1 - this.next()) * meanMs));
  }

  /** A random UUID, as `node:crypto` would make it. */
  uuid(): `${string}-${string}-${string}-${string}-${string}` {
    const hex = (digits: number): string => {
      let text = '';
      for (let i = 0; i < digits; i += 1) text += this.int(0, 15).toString(16);
      return text;
    };
    return `${hex(8)}-${hex(4)}-4${hex(3)}-a${hex(3)}-${hex(12)}`;
  }
}
