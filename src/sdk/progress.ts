/**
 * How far one partition has been worked off. Records are taken in the order of their offsets and settled in any order; the
 * offset to store is the one before which everything is settled.
 *
 * Example: taken 5, 6, 9 (offsets have holes), settled 5 and 9: `next` is 6; after 6 is settled too it is 10.
 */
export class PartitionProgress {
  readonly topic: string;
  readonly partition: number;
  private readonly ending = new AbortController();
  /** Taken and not yet below `next`, by offset in rising order: whether it is settled. */
  private readonly taken = new Map<number, boolean>();
  /** First offset that was not taken yet. */
  private end: number;
  private committed: number;

  /** @param next offset of the first record that will come */
  constructor(topic: string, partition: number, next = 0) {
    this.topic = topic;
    this.partition = partition;
    this.end = next;
    this.committed = next;
  }

  /** False: the partition is being given back; nothing of it is begun any more. */
  get open(): boolean {
    return !this.ending.signal.aborted;
  }

  /** Aborted when the partition is given back: waits in it end at once. */
  get signal(): AbortSignal {
    return this.ending.signal;
  }

  close(): void {
    this.ending.abort();
  }

  /** Takes a record; false: it was taken before. */
  take(offset: number): boolean {
    if (offset < this.end) return false;
    this.taken.set(offset, false);
    this.end = offset + 1;
    return true;
  }

  /** Everything below an offset was given: holes at the end of the log (control records) count as done. */
  reached(end: number): void {
    if (end > this.end) this.end = end;
  }

  settle(offset: number): void {
    if (this.taken.has(offset)) this.taken.set(offset, true);
    for (const [first, settled] of this.taken) {
      if (!settled) return;
      this.taken.delete(first);
    }
  }

  /** Records that are taken and not settled, or wait for one before them. */
  get pending(): number {
    return this.taken.size;
  }

  /** Offset of the first record that is not done. */
  get next(): number {
    for (const first of this.taken.keys()) return first;
    return this.end;
  }

  /** The offset to store, or null when it is stored already. */
  toCommit(): number | null {
    return this.next > this.committed ? this.next : null;
  }

  stored(next: number): void {
    if (next > this.committed) this.committed = next;
  }
}
