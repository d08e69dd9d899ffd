import type { ConnectionPool } from '@platformatic/kafka';
import { type CarillonError, carillonError } from '../../core/errors.ts';
import type { BusRecord } from '../../ports/bus.ts';
import type { Broker, Cluster } from './cluster.ts';
import { type Fetched, fetchFromMany } from './fetch.ts';
import { CODE, isTemporary, nameOfCode, unavailable } from './protocol-errors.ts';

/** Records of a partition that wait for its worker; beyond, it is left out of the next requests. */
const AHEAD_RECORDS = 2_000;
/** A request waits this long at the broker for a first record, in ms; less while it leaves a partition out, which waits for its end. */
const FETCH_WAIT_MS = 1_000;
const FETCH_WAIT_SHORT_MS = 20;
const PAUSE_MS = 50;

/** One partition, read ahead. */
export interface PartitionReader {
  /** The next committed records, at most `maxRecords`; none at the end of `maxWaitMs`, or at close. @throws as `BusReader.read` */
  read(maxWaitMs: number, maxRecords: number): Promise<BusRecord[]>;
  close(): void;
}

/**
 * Reads the partitions of one group member. One request asks a leader for all of them, so what a producer wrote to several at
 * once comes with one answer and is worked on together: a request costs client and broker as much as many records. While a
 * worker has the records of one answer the next ones are read ahead.
 */
export class GroupReader {
  readonly #cluster: Cluster;
  readonly #topic: string;
  readonly #pool: ConnectionPool;
  /** How many partitions the member has. */
  readonly #held: number;
  /** By partition; those that last had records stand last, so that none is always cut off by the size of an answer. */
  readonly #lines = new Map<number, Line>();
  /** Brokers that are being asked. */
  readonly #asked = new Set<number>();
  #looking = false;
  #closed = false;

  constructor(cluster: Cluster, topic: string, held: number) {
    this.#cluster = cluster;
    this.#topic = topic;
    this.#held = held;
    this.#pool = cluster.openPool();
  }

  open(partition: number, from: number): PartitionReader {
    const line = new Line(partition, from, () => this.#plan());
    this.#lines.set(partition, line);
    this.#plan();
    return {
      read: (maxWaitMs, maxRecords) => line.read(maxWaitMs, maxRecords),
      close: () => {
        line.end();
        if (this.#lines.get(partition) === line) this.#lines.delete(partition);
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const line of this.#lines.values()) line.end();
    this.#lines.clear();
    await this.#cluster.closePool(this.#pool);
  }

  /** Asks every leader that is not being asked for those of its partitions that want records. */
  #plan(): void {
    if (this.#closed) return;
    const leaders = new Map<number, Broker>();
    for (const line of this.#lines.values()) {
      if (!line.wanting) continue;
      const leader = this.#cluster.knownLeader(this.#topic, line.partition);
      if (leader === undefined) void this.#lookUp();
      else leaders.set(leader.id, leader);
    }
    for (const leader of leaders.values()) {
      if (!this.#asked.has(leader.id)) void this.#ask(leader);
    }
  }

  async #lookUp(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      await this.#cluster.leaders(this.#topic);
      if ([...this.#lines.values()].some(({ partition }) => !this.#cluster.knownLeader(this.#topic, partition))) {
        await this.#cluster.pause(PAUSE_MS);
      }
    } catch (error) {
      for (const line of this.#lines.values()) line.fail(unavailable(`leaders of ${this.#topic}`, error));
      await this.#cluster.pause(PAUSE_MS);
    }
    this.#looking = false;
    this.#plan();
  }

  /** One request. It never rejects. */
  async #ask(leader: Broker): Promise<void> {
    this.#asked.add(leader.id);
    const lines = [...this.#lines.values()].filter((line) => {
      return line.wanting && this.#cluster.knownLeader(this.#topic, line.partition)?.id === leader.id;
    });
    const all = [...this.#lines.values()].every((line) => line.wanting) && this.#lines.size === this.#held;
    try {
      const connection = await this.#pool.get(leader);
      const waitMs = all ? FETCH_WAIT_MS : FETCH_WAIT_SHORT_MS;
      const answers = await fetchFromMany(connection, this.#topic, lines, waitMs);
      // In one go, so that the workers of all partitions take their records in the same turn.
      for (const line of lines) this.#answered(line, answers.get(line.partition));
    } catch (error) {
      if (!this.#closed) {
        this.#cluster.forget(this.#topic);
        for (const line of lines) line.fail(unavailable(`reading ${this.#topic}`, error));
        await this.#cluster.pause(PAUSE_MS);
      }
    }
    this.#asked.delete(leader.id);
    this.#plan();
  }

  #answered(line: Line, fetched: Fetched | undefined): void {
    if (fetched === undefined || this.#lines.get(line.partition) !== line) return;
    const { code, records, next } = fetched;
    if (code === 0) {
      if (records.length > 0) {
        this.#lines.delete(line.partition);
        this.#lines.set(line.partition, line);
      }
      line.take(records, next);
    } else if (code === CODE.offsetOutOfRange) {
      line.end(this.#outOfRange(line));
    } else {
      this.#cluster.forget(this.#topic);
      const error = unavailable(`reading ${this.#topic}/${line.partition}`, new Error(nameOfCode(code)));
      if (isTemporary(code)) line.fail(error);
      else line.end(error);
    }
  }

  /** A reader never skips: what it should read is gone, or was never there. */
  #outOfRange({ partition, offset }: Line): CarillonError {
    return carillonError('offset-unknown', `offset ${offset} of ${this.#topic}/${partition} is not kept (any more)`);
  }
}

/** What was read ahead of one partition. */
class Line {
  readonly partition: number;
  /** To ask for next. */
  offset: number;
  readonly #wants: () => void;
  #ahead: BusRecord[] = [];
  /** What went wrong since the last answer. */
  #failure: CarillonError | null = null;
  #ended = false;
  #wake: () => void = () => {};

  constructor(partition: number, offset: number, wants: () => void) {
    this.partition = partition;
    this.offset = offset;
    this.#wants = wants;
  }

  get wanting(): boolean {
    return !this.#ended && this.#ahead.length < AHEAD_RECORDS;
  }

  take(records: BusRecord[], next: number): void {
    this.offset = next;
    this.#failure = null;
    if (records.length === 0) return;
    this.#ahead = this.#ahead.length === 0 ? records : [...this.#ahead, ...records];
    this.#wake();
  }

  /** A failure that may pass. */
  fail(error: CarillonError): void {
    this.#failure = error;
  }

  /** Nothing more will come. */
  end(error?: CarillonError): void {
    this.#ended = true;
    this.#failure = error ?? this.#failure;
    this.#wake();
  }

  async read(maxWaitMs: number, maxRecords: number): Promise<BusRecord[]> {
    if (this.#ahead.length === 0 && !this.#ended) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const timer = setTimeout(resolve, maxWaitMs);
      await promise;
      clearTimeout(timer);
    }
    if (this.#ahead.length === 0) {
      const failure = this.#failure;
      if (failure !== null) throw failure;
      return [];
    }
    const records = this.#ahead.splice(0, maxRecords);
    this.#wants();
    return records;
  }
}
