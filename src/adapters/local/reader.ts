import { carillonError } from '../../core/errors.ts';
import type { BusReader, BusRecord } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log, Offsets } from './log.ts';
import { recordsOf } from './watchers.ts';

const READ_RECORDS = 1_000;

export function offsetsOf(log: Log, topic: string): Offsets[] {
  const offsets = log.offsets(topic);
  if (offsets === null) throw carillonError('topic-unknown', topic);
  return offsets;
}

function offsetsAt(log: Log, topic: string, partition: number): Offsets {
  const offsets = offsetsOf(log, topic)[partition];
  if (offsets === undefined) throw carillonError('topic-unknown', `${topic} has no partition ${partition}`);
  return offsets;
}

/** Reads one partition of a log; a waiting read is woken by `watch`, so an idle reader costs nothing. */
export class LocalReader implements BusReader {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #topic: string;
  readonly #partition: number;
  readonly #closed = new AbortController();
  /** Aborted when the reader is closed. */
  readonly closed: AbortSignal = this.#closed.signal;
  readonly #unwatch: () => void;
  /** Ends the present waits. */
  readonly #waiting = new Set<() => void>();
  #position: number;

  constructor(log: Log, clock: Clock, topic: string, partition: number, from: number | 'first' | 'end') {
    this.#log = log;
    this.#clock = clock;
    this.#topic = topic;
    this.#partition = partition;
    const { first, end } = offsetsAt(log, topic, partition);
    this.#position = from === 'first' ? first : from === 'end' ? end : from;
    this.#refuseSkip(first);
    this.#unwatch = log.watch([topic, recordsOf(topic, partition)], () => this.#wake());
  }

  get position(): number {
    return this.#position;
  }

  async read(maxWaitMs: number, maxRecords: number = READ_RECORDS): Promise<BusRecord[]> {
    const untilMs = this.#clock.monotonicMs() + maxWaitMs;
    while (!this.closed.aborted) {
      const records = this.#take(maxRecords);
      if (records.length > 0) return records;
      const restMs = untilMs - this.#clock.monotonicMs();
      if (restMs <= 0) break;
      await this.#change(restMs);
    }
    return [];
  }

  #take(maxRecords: number): BusRecord[] {
    const records = this.#log.read(this.#topic, this.#partition, this.#position, maxRecords);
    // Whether records before the first one were compacted or are no longer kept, only the log's first offset tells.
    if (records[0]?.offset !== this.#position) this.#passHoles();
    if (records.length > 0) this.#position = records.at(-1)!.offset + 1;
    return records;
  }

  /** Nothing may be left between here and the end of the log, where the last records of a compacted topic went. */
  #passHoles(): void {
    const { first, end } = offsetsAt(this.#log, this.#topic, this.#partition);
    this.#refuseSkip(first);
    // The end was asked for first: what another thread writes after that stands behind it.
    if (this.#position < end && this.#log.read(this.#topic, this.#partition, this.#position, 1).length === 0) {
      this.#position = end;
    }
  }

  #refuseSkip(first: number): void {
    if (this.#position >= first) return;
    throw carillonError(
      'offset-unknown',
      `${this.#topic}/${this.#partition} begins at ${first}, ${this.#position} was asked for`,
    );
  }

  /** Ends with the next change of the partition, at close, or after `maxMs`. */
  #change(maxMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#clock.after(maxMs, () => done());
    const done = (): void => {
      cancel();
      this.#waiting.delete(done);
      resolve();
    };
    this.#waiting.add(done);
    return promise;
  }

  #wake(): void {
    for (const done of this.#waiting) done();
  }

  /** What is committed here shows at once, so there is nothing between `visible` and `written`. */
  async caughtUp(): Promise<boolean> {
    const { end } = offsetsAt(this.#log, this.#topic, this.#partition);
    if (this.#position < end) this.#passHoles();
    return this.#position >= end;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#unwatch();
    this.#wake();
  }
}
