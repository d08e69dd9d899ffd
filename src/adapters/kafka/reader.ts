import type { ConnectionPool } from '@platformatic/kafka';
import { CarillonError, carillonError } from '../../core/errors.ts';
import type { BusReader, BusRecord } from '../../ports/bus.ts';
import type { Cluster } from './cluster.ts';
import { type Fetched, fetchFrom } from './fetch.ts';
import { offsetOf } from './offsets.ts';
import { FETCH_WAIT_MS } from './options.ts';
import { CODE, isTemporary, mayRepeat, nameOfCode, unavailable } from './protocol-errors.ts';

const DEFAULT_RECORDS = 1_000;
const PAUSE_MS = 50;

export async function openReader(
  cluster: Cluster,
  topic: string,
  partition: number,
  from: number | 'first' | 'end',
): Promise<BusReader> {
  await cluster.leader(topic, partition);
  const position = typeof from === 'number' ? from : await offsetOf(cluster, topic, partition, from);
  return new KafkaReader(cluster, topic, partition, position);
}

/** Reads one partition from its leader. It has a connection of its own, since a fetch that waits holds up what follows it. */
class KafkaReader implements BusReader {
  readonly #cluster: Cluster;
  readonly #pool: ConnectionPool;
  readonly #topic: string;
  readonly #partition: number;
  /** Records of the last answer that nobody has read yet; at most one answer. */
  #ahead: BusRecord[] = [];
  /** Offset that the next fetch asks for. */
  #next: number;
  #closed = false;
  readonly #closing = Promise.withResolvers<null>();

  constructor(cluster: Cluster, topic: string, partition: number, position: number) {
    this.#cluster = cluster;
    this.#pool = cluster.openPool();
    this.#topic = topic;
    this.#partition = partition;
    this.#next = position;
  }

  get position(): number {
    return this.#ahead[0]?.offset ?? this.#next;
  }

  async read(maxWaitMs: number, maxRecords: number = DEFAULT_RECORDS): Promise<BusRecord[]> {
    const endMs = performance.now() + maxWaitMs;
    while (this.#ahead.length === 0) {
      const leftMs = Math.max(0, Math.ceil(endMs - performance.now()));
      const moved = await this.#fetch(Math.min(leftMs, FETCH_WAIT_MS), endMs);
      if (this.#closed) return [];
      if (this.#ahead.length === 0 && !moved && performance.now() >= endMs) return [];
    }
    return this.#ahead.splice(0, maxRecords);
  }

  async caughtUp(upTo: 'visible' | 'written' = 'visible'): Promise<boolean> {
    const end = await offsetOf(this.#cluster, this.#topic, this.#partition, upTo === 'written' ? 'written' : 'end');
    // The log may end in marks of transactions, which only a fetch passes, or in records that nobody has decided yet.
    let moved = true;
    while (moved && this.#ahead.length === 0 && this.#next < end) moved = await this.#fetch(0, performance.now());
    return this.#ahead.length === 0 && this.#next >= end;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#closing.resolve(null);
    await this.#cluster.closePool(this.#pool);
  }

  /** One fetch. Answers whether it moved; temporary errors are waited out until `endMs`, then thrown. */
  async #fetch(waitMs: number, endMs: number): Promise<boolean> {
    if (this.#closed) throw carillonError('unavailable', `the reader of ${this.#topic}/${this.#partition} is closed`);
    let fetched: Fetched | null;
    try {
      fetched = await Promise.race([this.#ask(waitMs), this.#closing.promise]);
      if (fetched === null) return false;
    } catch (error) {
      if (this.#closed) return false;
      if (error instanceof CarillonError) throw error;
      await this.#wait(mayRepeat(error), error, endMs);
      return false;
    }
    if (fetched.code !== 0) {
      if (fetched.code === CODE.offsetOutOfRange) throw await this.#outOfRange();
      await this.#wait(isTemporary(fetched.code), new Error(nameOfCode(fetched.code)), endMs);
      return false;
    }
    const moved = fetched.next > this.#next;
    this.#next = fetched.next;
    this.#ahead = fetched.records;
    return moved;
  }

  async #ask(waitMs: number): Promise<Fetched> {
    const connection = await this.#pool.get(await this.#cluster.leader(this.#topic, this.#partition));
    return fetchFrom(connection, this.#topic, this.#partition, this.#next, waitMs);
  }

  async #wait(temporary: boolean, error: unknown, endMs: number): Promise<void> {
    this.#cluster.forget(this.#topic);
    if (!temporary || performance.now() >= endMs) throw unavailable(`reading ${this.#topic}/${this.#partition}`, error);
    await this.#cluster.pause(PAUSE_MS);
  }

  /** A reader never skips: what it should read is gone, or was never there. */
  async #outOfRange(): Promise<CarillonError> {
    const [first, end] = await Promise.all(
      (['first', 'end'] as const).map((which) => offsetOf(this.#cluster, this.#topic, this.#partition, which)),
    );
    const place = `${this.#topic}/${this.#partition} holds offsets ${first} to ${end}`;
    return carillonError('offset-unknown', `offset ${this.#next} cannot be read: ${place}`);
  }
}
