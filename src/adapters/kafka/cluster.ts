import { setTimeout as pause } from 'node:timers/promises';
import { type Connection, ConnectionPool, findCoordinatorV6, metadataV12 } from '@platformatic/kafka';
import { CarillonError, carillonError } from '../../core/errors.ts';
import type { KafkaSettings } from './options.ts';
import { answerIn, CODE, mayRepeat, nameOfCode, unavailable } from './protocol-errors.ts';
import { SettingsOfTopics } from './topic-settings.ts';

interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Broker extends Address {
  readonly id: number;
}

/** Leaders by partition; null where a partition has none at the moment. */
export type Leaders = readonly (Broker | null)[];

/** How long requests that change nothing are repeated, in ms, before the caller is told that Kafka is away. */
export const PATIENCE_MS = 10_000;
const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 500;

const KEY_TYPE = { group: 0, transaction: 1 } as const;
type CoordinatorKind = keyof typeof KEY_TYPE;

/**
 * What everybody here knows of the brokers: who leads which partition, who coordinates a group or a transactional id, and
 * the connections. Answers are kept until somebody finds them wrong (`forget`). A broker works off the requests of one
 * connection in turn, so whoever waits at the broker (readers, lanes, producers) takes a pool of his own.
 */
export class Cluster {
  readonly settings: KafkaSettings;
  readonly topicSettings = new SettingsOfTopics(this);
  readonly #pools = new Set<ConnectionPool>();
  readonly #leaders = new Map<string, Leaders>();
  readonly #lookups = new Map<string, Promise<Leaders>>();
  readonly #coordinators = new Map<string, Broker>();
  readonly #stop = new AbortController();
  readonly #shared: ConnectionPool;
  #brokers: readonly Broker[] = [];

  constructor(settings: KafkaSettings) {
    this.settings = settings;
    this.#shared = this.openPool();
  }

  openPool(): ConnectionPool {
    const pool = new ConnectionPool(this.settings.clientId, this.settings.connection);
    // Errors of a connection reach whoever waits for an answer on it; the event alone would end the process.
    pool.on('connecting', ({ connection }) => connection.on('error', () => {}));
    this.#pools.add(pool);
    return pool;
  }

  async closePool(pool: ConnectionPool): Promise<void> {
    this.#pools.delete(pool);
    await pool.close().catch(() => {});
  }

  get closed(): boolean {
    return this.#stop.signal.aborted;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([...this.#pools].map((pool) => this.closePool(pool)));
  }

  /** A connection for requests that any broker answers. */
  async anyone(): Promise<Connection> {
    const isKnown = ({ host, port }: Address): boolean =>
      this.#brokers.some((broker) => broker.host === host && broker.port === port);
    return this.#shared.getFirstAvailable([
      ...this.#brokers,
      ...this.settings.bootstrap.filter((address) => !isKnown(address)),
    ]);
  }

  /** A connection for short requests to one broker. */
  async to(broker: Broker): Promise<Connection> {
    return this.#shared.get(broker);
  }

  /** The leader of a partition as last heard of; undefined: not known, ask `leaders`. */
  knownLeader(topic: string, partition: number): Broker | undefined {
    return this.#leaders.get(topic)?.[partition] ?? undefined;
  }

  forget(topic: string): void {
    this.#leaders.delete(topic);
  }

  /** Asks who leads the partitions of a topic; fails with `topic-unknown`. At the same time, it is asked once. */
  leaders(topic: string): Promise<Leaders> {
    let lookup = this.#lookups.get(topic);
    if (lookup === undefined) {
      lookup = this.repeat(`leaders of ${topic}`, () => this.#askLeaders(topic)).finally(() => {
        this.#lookups.delete(topic);
      });
      this.#lookups.set(topic, lookup);
    }
    return lookup;
  }

  async #askLeaders(topic: string): Promise<Leaders> {
    const answer = await metadataV12.api
      .async(await this.anyone(), [topic], false, false)
      .catch(answerIn<metadataV12.MetadataResponse>);
    this.#brokers = answer.brokers.map(({ nodeId, host, port }) => ({ id: nodeId, host, port }));
    const found = answer.topics[0];
    const code = found?.errorCode ?? CODE.unknownTopicOrPartition;
    if (code === CODE.unknownTopicOrPartition || code === CODE.invalidTopic || code === CODE.unknownTopicId) {
      this.forget(topic);
      throw carillonError('topic-unknown', topic);
    }
    if (found === undefined || found.partitions.length === 0) {
      throw unavailable(`leaders of ${topic}`, new Error(nameOfCode(code)));
    }
    const leaders: (Broker | null)[] = [];
    for (const { partitionIndex, leaderId } of found.partitions) {
      leaders[partitionIndex] = this.#brokers.find(({ id }) => id === leaderId) ?? null;
    }
    this.#leaders.set(topic, leaders);
    return leaders;
  }

  /** The leader of one partition; waits while there is none. Fails with `topic-unknown`. */
  async leader(topic: string, partition: number): Promise<Broker> {
    const known = this.knownLeader(topic, partition);
    if (known !== undefined) return known;
    return this.repeat(`leader of ${topic}/${partition}`, async () => {
      const leaders = await this.leaders(topic);
      if (partition < 0 || partition >= leaders.length) {
        throw carillonError('topic-unknown', `${topic} has no partition ${partition}`);
      }
      const leader = leaders[partition];
      if (leader == null) throw new Error('it has no leader');
      return leader;
    });
  }

  async brokers(): Promise<readonly Broker[]> {
    const answer = await this.repeat('brokers', async () =>
      metadataV12.api.async(await this.anyone(), [], false, false),
    );
    return answer.brokers.map(({ nodeId, host, port }) => ({ id: nodeId, host, port }));
  }

  /** One request to the coordinator of a group or transactional id; where it fails, the coordinator is asked for anew. */
  async atCoordinator<T>(kind: CoordinatorKind, key: string, request: (broker: Broker) => Promise<T>): Promise<T> {
    const name = `${kind} ${key}`;
    try {
      let broker = this.#coordinators.get(name);
      if (broker === undefined) {
        const answer = await findCoordinatorV6.api.async(await this.anyone(), KEY_TYPE[kind], [key]);
        const { nodeId, host, port } = answer.coordinators[0]!;
        broker = { id: nodeId, host, port };
        this.#coordinators.set(name, broker);
      }
      return await request(broker);
    } catch (error) {
      this.#coordinators.delete(name);
      throw error;
    }
  }

  /**
   * Sends a request again, with growing pauses, while it may be repeated and `patienceMs` is not over; then it throws
   * `unavailable`. Only for requests that may be repeated: those that change nothing, or the same thing.
   */
  async repeat<T>(what: string, request: () => Promise<T>, patienceMs: number = PATIENCE_MS): Promise<T> {
    const begun = performance.now();
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      if (this.closed) throw unavailable(what, new Error('the bus is closed'));
      try {
        return await request();
      } catch (error) {
        if (error instanceof CarillonError) throw error;
        if (!mayRepeat(error) || performance.now() - begun + pauseMs > patienceMs) throw unavailable(what, error);
        await this.pause(pauseMs);
      }
    }
  }

  /** Waits; the end of the bus, or of the caller, ends it at once. */
  async pause(ms: number, own?: AbortSignal): Promise<void> {
    const signal = own === undefined ? this.#stop.signal : AbortSignal.any([own, this.#stop.signal]);
    await pause(ms, undefined, { signal }).catch(() => {});
  }
}
