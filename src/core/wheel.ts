/**
 * A hierarchical timing wheel: which entries are due at which millisecond. It has no thread, no clock and no closures: it
 * moves only when `advanceTo` is called, and everything is held in parallel typed arrays and integer links.
 *
 * Units and ranges. Times are whole milliseconds from 0 to 2^50 - 1 (year 37,648), entries are integers from 0 that the
 * caller gives out and uses again; each entry waits at most once. The arrays grow by doubling to the largest entry seen.
 *
 * How it works. A time is read as five digits of ten bits. An entry hangs in the level of the highest digit in which its
 * time differs from the wheel's: level 0 has buckets of 1 ms, level 1 of 1,024 ms, level 2 of 17.5 min, level 3 of 12.4
 * days, level 4 of 34.8 years. When the wheel reaches the start of a bucket of a higher level, the entries in it are hung
 * again and come into lower levels; each entry moves at most four times, so add and cancel are O(1), and a wheel without
 * entries costs nothing: empty buckets are skipped by a bitmap of one bit per bucket.
 *
 * Example, wheel at 1,000: an entry for 1,003 differs in the lowest digit only: level 0, bucket 1,003. One for 3,000 =
 * 2 * 1,024 + 952 differs in the second digit: level 1, bucket 2, which begins at 2,048. `advanceTo(5,000)` moves to 1,003
 * and gives the first; asked again it moves to 2,048, hangs the second into level 0, bucket 952, moves to 3,000 and gives
 * it; asked again it moves to 5,000 and gives nothing.
 *
 * Promises. An entry is given once, never before its time; after a stall all entries come in the order of their times (in
 * the order of adding within one ms that was not cascaded), with `timeMs` at each entry's own time, not at "now". What is
 * due already when it is added never sits in a bucket: `add` says so and the caller acts at once.
 */
const BITS = 10;
const BUCKETS = 2 ** BITS;
const MASK = BUCKETS - 1;
const LEVELS = 5;
const WORDS = BUCKETS / 32;
const LIMIT = 2 ** (BITS * LEVELS);
/** Width of one bucket of each level, in ms. */
const WIDTH = Array.from({ length: LEVELS + 1 }, (_, level) => 2 ** (BITS * level));
const NONE = -1;

export class Wheel {
  private time: number;
  private count = 0;
  private due: Float64Array;
  private next: Int32Array;
  private previous: Int32Array;
  /** Bucket (level * BUCKETS + index) in which an entry hangs, or NONE. */
  private bucket: Int32Array;
  private readonly first = new Int32Array(LEVELS * BUCKETS).fill(NONE);
  private readonly last = new Int32Array(LEVELS * BUCKETS).fill(NONE);
  private readonly filled = new Uint32Array(LEVELS * WORDS);

  constructor(startMs: number, capacity = 1_024) {
    if (!(startMs >= 0 && startMs < LIMIT)) throw new RangeError(`start of a wheel: ${startMs}`);
    this.time = Math.floor(startMs);
    this.due = new Float64Array(capacity);
    this.next = new Int32Array(capacity);
    this.previous = new Int32Array(capacity);
    this.bucket = new Int32Array(capacity).fill(NONE);
  }

  /** Every entry before this time was given, and those of this very time as far as `advanceTo` was asked. */
  get timeMs(): number {
    return this.time;
  }

  /** How many entries wait. */
  get size(): number {
    return this.count;
  }

  /** The time up to which, inclusive, every entry was given. */
  get drainedToMs(): number {
    return this.first[this.time & MASK] === NONE ? this.time : this.time - 1;
  }

  waits(entry: number): boolean {
    return entry < this.bucket.length && this.bucket[entry] !== NONE;
  }

  /** Hangs an entry that does not wait; false: it is due already and was not hung. */
  add(entry: number, dueMs: number): boolean {
    if (dueMs <= this.time) return false;
    if (dueMs >= LIMIT) throw new RangeError(`time in a wheel: ${dueMs}`);
    if (entry >= this.bucket.length) this.grow(entry);
    if (this.bucket[entry] !== NONE) throw new Error(`entry ${entry} waits already`);
    this.due[entry] = dueMs;
    this.hang(entry, dueMs);
    this.count += 1;
    return true;
  }

  /** Takes an entry out; false: it did not wait. */
  cancel(entry: number): boolean {
    if (!this.waits(entry)) return false;
    this.unhang(entry);
    this.count -= 1;
    return true;
  }

  /**
   * Moves towards `nowMs` and stops at the first millisecond with due entries, which is then `timeMs`; writes as many of its
   * entries to `out` as fit there and answers how many. 0: nothing is due up to `nowMs`, and the wheel stands there. A
   * `nowMs` before `timeMs` moves nothing.
   */
  advanceTo(nowMs: number, out: Int32Array): number {
    for (;;) {
      if (this.time > nowMs) return 0;
      const given = this.take(this.time & MASK, out);
      if (given > 0) return given;
      if (!this.step(nowMs)) return 0;
    }
  }

  /** A time before which nothing is due: the start of the first bucket with entries; Infinity when none waits. */
  nextDueMs(): number {
    if (this.count === 0) return Number.POSITIVE_INFINITY;
    if (this.first[this.time & MASK] !== NONE) return this.time;
    for (let level = 0; level < LEVELS; level += 1) {
      const index = this.nextFilled(level);
      if (index !== NONE) return this.startOf(level, index);
    }
    return Number.POSITIVE_INFINITY;
  }

  /** Moves to the next bucket with entries, not beyond `nowMs`; answers whether it came to one. */
  private step(nowMs: number): boolean {
    for (let level = 0; this.count > 0 && level < LEVELS; level += 1) {
      const index = this.nextFilled(level);
      if (index === NONE) continue;
      const start = this.startOf(level, index);
      if (start > nowMs) break;
      this.time = start;
      if (level > 0) this.cascade(level * BUCKETS + index);
      return true;
    }
    this.time = Math.floor(nowMs);
    return false;
  }

  private startOf(level: number, index: number): number {
    return Math.floor(this.time / WIDTH[level + 1]!) * WIDTH[level + 1]! + index * WIDTH[level]!;
  }

  /** The next filled bucket of a level after the one that the wheel is in, or NONE. */
  private nextFilled(level: number): number {
    const index = (Math.floor(this.time / WIDTH[level]!) & MASK) + 1;
    if (index === BUCKETS) return NONE;
    let word = index >>> 5;
    let bits = this.filled[level * WORDS + word]! & (-1 << (index & 31));
    while (bits === 0) {
      word += 1;
      if (word === WORDS) return NONE;
      bits = this.filled[level * WORDS + word]!;
    }
    return word * 32 + 31 - Math.clz32(bits & -bits);
  }

  private cascade(bucket: number): void {
    let entry = this.first[bucket]!;
    this.clear(bucket);
    while (entry !== NONE) {
      const next = this.next[entry]!;
      this.hang(entry, this.due[entry]!);
      entry = next;
    }
  }

  private take(bucket: number, out: Int32Array): number {
    let given = 0;
    let entry = this.first[bucket]!;
    while (entry !== NONE && given < out.length) {
      out[given] = entry;
      given += 1;
      this.bucket[entry] = NONE;
      entry = this.next[entry]!;
    }
    if (given === 0) return 0;
    this.count -= given;
    if (entry === NONE) {
      this.clear(bucket);
    } else {
      this.first[bucket] = entry;
      this.previous[entry] = NONE;
    }
    return given;
  }

  private hang(entry: number, dueMs: number): void {
    let level = 0;
    while (Math.floor(dueMs / WIDTH[level + 1]!) !== Math.floor(this.time / WIDTH[level + 1]!)) level += 1;
    const index = Math.floor(dueMs / WIDTH[level]!) & MASK;
    const bucket = level * BUCKETS + index;
    const last = this.last[bucket]!;
    this.bucket[entry] = bucket;
    this.previous[entry] = last;
    this.next[entry] = NONE;
    this.last[bucket] = entry;
    if (last !== NONE) {
      this.next[last] = entry;
      return;
    }
    this.first[bucket] = entry;
    const word = level * WORDS + (index >>> 5);
    this.filled[word] = this.filled[word]! | (1 << (index & 31));
  }

  private unhang(entry: number): void {
    const bucket = this.bucket[entry]!;
    const next = this.next[entry]!;
    const previous = this.previous[entry]!;
    this.bucket[entry] = NONE;
    if (previous !== NONE) this.next[previous] = next;
    else this.first[bucket] = next;
    if (next !== NONE) this.previous[next] = previous;
    else this.last[bucket] = previous;
    if (this.first[bucket] === NONE) this.clear(bucket);
  }

  private clear(bucket: number): void {
    this.first[bucket] = NONE;
    this.last[bucket] = NONE;
    const word = bucket >>> 5;
    this.filled[word] = this.filled[word]! & ~(1 << (bucket & 31));
  }

  private grow(entry: number): void {
    let capacity = this.bucket.length * 2;
    while (capacity <= entry) capacity *= 2;
    const bucket = new Int32Array(capacity).fill(NONE);
    bucket.set(this.bucket);
    this.bucket = bucket;
    this.due = copied(this.due, new Float64Array(capacity));
    this.next = copied(this.next, new Int32Array(capacity));
    this.previous = copied(this.previous, new Int32Array(capacity));
  }
}

function copied<A extends Float64Array | Int32Array>(from: A, to: A): A {
  to.set(from);
  return to;
}
