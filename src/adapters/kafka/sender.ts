import type { ConnectionPool } from '@platformatic/kafka';
import { type CarillonError, carillonError, isCode } from '../../core/errors.ts';
import type { SendFailure, TopicMessages } from '../../ports/bus.ts';
import type { Broker, Cluster } from './cluster.ts';
import { Buffers, PartitionQueue } from './partition-queue.ts';
import { produce } from './produce.ts';
import { CODE, EPOCH_CODES, isTemporary, nameOfCode, unavailable } from './protocol-errors.ts';
import type { Identity } from './record-batch.ts';
import { EncodedTriggers } from './trigger-batch.ts';

export interface SenderOptions {
  /** Null: idempotent; else every batch belongs to the transaction that is open on this id. */
  transactionalId: string | null;
  identity: Identity;
  /** A new identity for a partition whose sequence is lost; null where only the owner can decide (transactions). */
  renew: (() => Promise<Identity>) | null;
  /** What was not acknowledged after this time is given up, in ms. */
  deliveryTimeoutMs: number;
  /** Records that wait or are on their way, at most. */
  maxRecords: number;
}

/** Bytes of one request: several partitions with a batch each. A larger one would hold up the first partitions' answers. */
const REQUEST_BYTES = 8_000_000;
const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 500;
/** Triggers wait this long for a partition to have a leader again, in ms: what goes with them waits too. */
const UNLED_MS = 250;

/**
 * Sends records, one request per broker at a time. What comes in meanwhile is merged into the next request, so batches grow
 * with the load by themselves and nothing ever waits for a timer. Each partition stands for itself: one that fails, has no
 * leader or is repeated holds up no other.
 */
export class Sender {
  readonly #cluster: Cluster;
  readonly #pool: ConnectionPool;
  readonly #options: SenderOptions;
  readonly #buffers = new Buffers();
  readonly #queues = new Map<string, Map<number, PartitionQueue>>();
  /** Queues that have something to send and are not on their way. */
  readonly #ready = new Set<PartitionQueue>();
  readonly #lookups = new Set<string>();
  readonly #busy = new Set<number>();
  readonly #renewing = new Set<PartitionQueue>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #identity: Identity;
  #records = 0;
  #planned = false;
  #closed: CarillonError | null = null;

  constructor(cluster: Cluster, pool: ConnectionPool, options: SenderOptions) {
    this.#cluster = cluster;
    this.#pool = pool;
    this.#options = options;
    this.#identity = options.identity;
  }

  /** Begins triggers, which are to be given to `send` in the same turn of the event loop, or never. */
  triggers(): EncodedTriggers {
    return new EncodedTriggers(this.#queueOf);
  }

  /** Answers the definite failures; throws when records may or may not be durable, or `too-many-requests`: none is sent. */
  async send(batch: readonly TopicMessages[]): Promise<SendFailure[]> {
    if (this.#closed !== null) throw this.#closed;
    const given = batch.find((one) => one instanceof EncodedTriggers);
    const records = batch.reduce((sum, { messages }) => sum + messages.length, 0);
    if (given === undefined && this.#records > 0 && this.#records + records > this.#options.maxRecords) {
      throw carillonError('too-many-requests', `${this.#records} records wait to be sent to Kafka`);
    }
    const all = given ?? new EncodedTriggers(this.#queueOf, true);
    for (const { topic, messages } of batch) for (const message of messages) all.message(topic, message);
    const total = all.count;
    this.#records += total;
    const answer = all.delivery.answer(total);
    for (const queue of all.queues()) {
      // A queue that is on its way, or pauses, comes back by itself.
      if (queue.flight === null && !queue.idle && !this.#renewing.has(queue)) this.#ready.add(queue);
    }
    this.#plan();
    try {
      return await answer;
    } finally {
      this.#records -= total;
    }
  }

  get records(): number {
    return this.#records;
  }

  /** The next transaction: nothing may be on its way. */
  restart(identity: Identity): void {
    this.#identity = identity;
    this.#queues.clear();
  }

  /** Whatever is still on its way fails as unknown. */
  close(): void {
    this.#closed ??= carillonError('unavailable', 'the producer is closed');
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#ready.clear();
    for (const queues of this.#queues.values()) for (const queue of queues.values()) queue.failAll(this.#closed);
  }

  readonly #queueOf = (topic: string, partition: number): PartitionQueue => this.#queue(topic, partition);

  #queue(topic: string, partition: number): PartitionQueue {
    let queues = this.#queues.get(topic);
    if (queues === undefined) {
      queues = new Map();
      this.#queues.set(topic, queues);
    }
    let queue = queues.get(partition);
    if (queue === undefined) {
      const settings = this.#cluster.topicSettings.of(topic);
      queue = new PartitionQueue(topic, partition, this.#identity, this.#buffers, settings);
      queues.set(partition, queue);
    }
    return queue;
  }

  /** Sends soon: calls of one turn of the event loop go together. */
  #plan(): void {
    if (this.#planned || this.#ready.size === 0) return;
    this.#planned = true;
    setImmediate(() => {
      this.#planned = false;
      this.#sendReady();
    });
  }

  #sendReady(): void {
    this.#cluster.topicSettings.refresh(performance.now());
    const requests = new Map<number, { broker: Broker; queues: PartitionQueue[]; bytes: number }>();
    for (const queue of this.#ready) {
      const broker = this.#cluster.knownLeader(queue.topic, queue.partition);
      if (broker === undefined) {
        this.#lookUp(queue.topic);
        continue;
      }
      if (queue.identity === null) {
        this.#renew(queue);
        continue;
      }
      if (this.#busy.has(broker.id)) continue;
      const request = requests.get(broker.id) ?? { broker, queues: [], bytes: 0 };
      if (request.bytes > REQUEST_BYTES) continue;
      requests.set(broker.id, request);
      request.bytes += queue.next(this.#options.transactionalId !== null, queue.identity).bytes.length;
      request.queues.push(queue);
      this.#ready.delete(queue);
    }
    for (const { broker, queues } of requests.values()) {
      this.#busy.add(broker.id);
      void this.#request(broker, queues);
    }
  }

  async #request(broker: Broker, queues: readonly PartitionQueue[]): Promise<void> {
    try {
      const connection = await this.#pool.get(broker);
      const batches = queues.map(({ topic, partition, flight }) => ({ topic, partition, bytes: flight!.bytes }));
      for (const { flight } of queues) flight!.attempts += 1;
      const codes = await produce(connection, this.#options.transactionalId, batches);
      queues.forEach((queue, i) => {
        if (queue.flight !== null) this.#answered(queue, codes[i]!);
      });
    } catch (error) {
      for (const queue of queues) if (queue.flight !== null) this.#unanswered(queue, error);
    }
    this.#busy.delete(broker.id);
    this.#plan();
  }

  #answered(queue: PartitionQueue, code: number): void {
    const batch = queue.flight!;
    if (code === 0 || code === CODE.duplicatedSequence) {
      queue.acknowledged();
    } else if (code === CODE.messageTooLarge || code === CODE.recordListTooLarge) {
      queue.halve();
    } else if (EPOCH_CODES.has(code) && this.#options.transactionalId !== null) {
      queue.failAll(carillonError('lane-fenced', `${this.#options.transactionalId}: ${nameOfCode(code)}`));
    } else if (LOST_SEQUENCE.has(code)) {
      this.#lostSequence(queue, code);
    } else if (code === CODE.concurrentTransactions) {
      // The marks of the transaction before are not written yet: nothing was taken.
      this.#again(queue, new Error(nameOfCode(code)));
      return;
    } else if (isTemporary(code)) {
      // An unknown topic took nothing; whether it is gone or made anew shows when the leaders are asked. The other temporary
      // errors may come after the leader wrote the records.
      if (code !== CODE.unknownTopicOrPartition) batch.uncertain = true;
      this.#cluster.forget(queue.topic);
      this.#again(queue, new Error(nameOfCode(code)));
      return;
    } else {
      queue.failBatch(unavailable(`${queue.topic}/${queue.partition}`, new Error(nameOfCode(code))));
      if (batch.uncertain) queue.identity = null;
    }
    if (!queue.idle) this.#ready.add(queue);
  }

  /** No answer: the records may be in the log or not, so the same bytes go again. */
  #unanswered(queue: PartitionQueue, error: unknown): void {
    if (queue.flight!.attempts > 0) queue.flight!.uncertain = true;
    this.#cluster.forget(queue.topic);
    this.#again(queue, error);
  }

  /**
   * The broker does not know the sequence (the topic was made anew, or its state has expired). Without an attempt of unknown
   * outcome the batch is surely not in the log and goes again under a new identity.
   */
  #lostSequence(queue: PartitionQueue, code: number): void {
    if (this.#options.renew === null || queue.flight!.uncertain) {
      queue.failBatch(unavailable(`${queue.topic}/${queue.partition}`, new Error(nameOfCode(code))));
    } else {
      queue.remake();
    }
    queue.identity = null;
  }

  #again(queue: PartitionQueue, error: unknown): void {
    const { attempts, firstSentMs, uncertain } = queue.flight!;
    if (this.#expired(firstSentMs)) {
      queue.failBatch(unavailable(`${queue.topic}/${queue.partition}`, error));
      if (uncertain) queue.identity = null;
      if (!queue.idle) this.#ready.add(queue);
      return;
    }
    this.#later(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempts, 10)), () => this.#ready.add(queue));
  }

  #expired(sinceMs: number): boolean {
    return this.#closed !== null || performance.now() - sinceMs > this.#options.deliveryTimeoutMs;
  }

  #later(ms: number, run: () => void): void {
    if (this.#closed !== null) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
      this.#plan();
    }, ms);
    this.#timers.add(timer);
  }

  #lookUp(topic: string): void {
    if (this.#lookups.has(topic)) return;
    this.#lookups.add(topic);
    this.#cluster.leaders(topic).then(
      (leaders) => this.#lookedUp(topic, leaders.length, new Error('the partition has no leader')),
      (error: unknown) => this.#lookedUp(topic, isCode(error, 'topic-unknown') ? 0 : null, error),
    );
  }

  /** `partitions` is null when nobody could tell. */
  #lookedUp(topic: string, partitions: number | null, error: unknown): void {
    this.#lookups.delete(topic);
    let leaderless = false;
    for (const queue of [...this.#ready].filter((one) => one.topic === topic)) {
      if (partitions !== null && queue.partition >= partitions) {
        queue.refuseAll('topic-unknown');
        // Should the topic come back it is another log, which knows nothing of the sequence.
        if (this.#options.renew !== null) this.#queues.get(topic)?.delete(queue.partition);
        this.#ready.delete(queue);
      } else if (this.#cluster.knownLeader(topic, queue.partition) === undefined) {
        if (partitions !== null && performance.now() - queue.oldestMs > UNLED_MS) queue.refuseUnled();
        if (queue.idle) {
          this.#ready.delete(queue);
          continue;
        }
        leaderless = true;
        if (!this.#expired(queue.oldestMs)) continue;
        if (queue.flight?.uncertain) queue.identity = null;
        queue.failAll(unavailable(`${topic}/${queue.partition}`, error));
        this.#ready.delete(queue);
      }
    }
    if (leaderless) this.#later(LONGEST_PAUSE_MS / 10, () => {});
    else this.#plan();
  }

  #renew(queue: PartitionQueue): void {
    this.#ready.delete(queue);
    if (this.#options.renew === null) {
      queue.failAll(unavailable(`${queue.topic}/${queue.partition}`, new Error('the transaction is broken')));
      return;
    }
    this.#renewing.add(queue);
    this.#options.renew().then(
      (identity) => {
        this.#renewing.delete(queue);
        queue.begin(identity);
        if (!queue.idle) this.#ready.add(queue);
        this.#plan();
      },
      (error: unknown) => {
        this.#renewing.delete(queue);
        queue.failAll(unavailable('a producer id', error));
      },
    );
  }
}

const LOST_SEQUENCE: ReadonlySet<number> = new Set([
  CODE.outOfOrderSequence,
  CODE.unknownProducerId,
  CODE.invalidProducerEpoch,
  CODE.invalidProducerIdMapping,
  CODE.producerFenced,
]);
