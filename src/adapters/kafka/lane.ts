import { apiVersionsV4, type Connection, type ConnectionPool, initProducerIdV5 } from '@platformatic/kafka';
import { type CarillonError, carillonError, isCode } from '../../core/errors.ts';
import {
  type BusLane,
  CommitRefused,
  type GroupOffset,
  type TopicMessages,
  type TriggerBatch,
} from '../../ports/bus.ts';
import { type Broker, type Cluster, PATIENCE_MS } from './cluster.ts';
import { codesOf, describe, EPOCH_CODES, unavailable } from './protocol-errors.ts';
import type { Identity } from './record-batch.ts';
import { Sender } from './sender.ts';
import { endTransaction, storeOffsets } from './transaction.ts';
import type { EncodedTriggers } from './trigger-batch.ts';

/**
 * A lane rests this long after its end, in ms. An end is answered when it is decided; the marks that show the records to
 * readers are written just after (1 to 3 ms), and a record of the same id that comes before them is put back by the broker
 * for 20 ms. To ask the coordinator whether they are written costs more than the transaction itself.
 */
const REST_MS = 2;
/** Of the transaction's time this part is for its records; the rest is for its end. */
const FILL_SHARE = 0.8;
const MAX_RECORDS = 1_000_000;

/**
 * Opens a transactional id: whoever had it is fenced, what they left open is aborted. This is the only place that takes an
 * id without knowing its epoch.
 */
export async function openLane(cluster: Cluster, id: string): Promise<BusLane> {
  await requireTransactions(cluster);
  const pool = cluster.openPool();
  try {
    const identity = await cluster.repeat(`opening ${id}`, () => initialise(cluster, (broker) => pool.get(broker), id));
    return new KafkaLane(cluster, pool, id, identity);
  } catch (error) {
    await cluster.closePool(pool);
    throw error;
  }
}

/** Without `known` the id is taken from whoever has it; with it, the coordinator refuses where somebody else took it. */
async function initialise(
  cluster: Cluster,
  connect: (broker: Broker) => Promise<Connection>,
  id: string,
  known?: Identity,
): Promise<Identity> {
  const timeoutMs = cluster.settings.transactionTimeoutMs;
  const { producerId, producerEpoch } = await cluster.atCoordinator('transaction', id, async (broker) =>
    initProducerIdV5.api.async(await connect(broker), id, timeoutMs, known?.producerId, known?.epoch),
  );
  return { producerId, epoch: producerEpoch };
}

class KafkaLane implements BusLane {
  readonly id: string;
  readonly #cluster: Cluster;
  readonly #pool: ConnectionPool;
  readonly #sender: Sender;
  #identity: Identity;
  /** When the last transaction was ended, monotonic ms. */
  #endedMs = Number.NEGATIVE_INFINITY;
  /** Triggers for the next commit, whose batches are being written. */
  #begun: EncodedTriggers | null = null;
  #running = false;
  #fenced: CarillonError | null = null;
  #closed = false;

  constructor(cluster: Cluster, pool: ConnectionPool, id: string, identity: Identity) {
    this.id = id;
    this.#cluster = cluster;
    this.#pool = pool;
    this.#identity = identity;
    this.#sender = new Sender(cluster, pool, {
      transactionalId: id,
      identity,
      renew: null,
      deliveryTimeoutMs: cluster.settings.transactionTimeoutMs * FILL_SHARE,
      maxRecords: MAX_RECORDS,
    });
  }

  triggers(): TriggerBatch {
    if (this.#running) throw carillonError('internal', `lane ${this.id} is used by two commits at a time`);
    this.#sender.restart(this.#identity);
    this.#begun = this.#sender.triggers();
    return this.#begun;
  }

  async commit(batch: readonly TopicMessages[], offsets: readonly GroupOffset[] = []): Promise<void> {
    if (this.#closed) throw carillonError('unavailable', `lane ${this.id} is closed`);
    if (this.#fenced !== null) throw this.#fenced;
    if (this.#running) throw carillonError('internal', `lane ${this.id} is used by two commits at a time`);
    const begun = this.#begun;
    this.#begun = null;
    if (begun === null || !batch.includes(begun)) {
      if (offsets.length === 0 && batch.every(({ messages }) => messages.length === 0)) return;
      this.#sender.restart(this.#identity);
    }
    // What is larger than its topic allows is known before anything is sent: no transaction is begun and taken back for it.
    if (begun !== null && begun.delivery.failures.length > 0) throw new CommitRefused(begun.delivery.failures);
    this.#running = true;
    try {
      await this.#transaction(batch, offsets);
    } finally {
      this.#running = false;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#sender.close();
    await this.#cluster.closePool(this.#pool);
  }

  /** A closed lane sends nothing any more: a commit that still runs ends without knowing its outcome. */
  readonly #connect = async (broker: Broker): Promise<Connection> => {
    if (this.#closed) throw carillonError('unavailable', `lane ${this.id} is closed`);
    return this.#pool.get(broker);
  };

  async #transaction(batch: readonly TopicMessages[], offsets: readonly GroupOffset[]): Promise<void> {
    const restMs = this.#endedMs + REST_MS - performance.now();
    if (restMs > 0) await this.#cluster.pause(Math.ceil(restMs));
    const failure = await this.#fill(batch, offsets);
    if (failure === null) return this.#end(true);
    if (isCode(failure, 'lane-fenced')) {
      await this.#askForEpoch(failure);
      throw unavailable(`the transaction of ${this.id} was aborted`, failure);
    }
    await this.#end(false);
    throw failure;
  }

  /** Writes records and offsets into the transaction; answers why it cannot be committed, or null. */
  async #fill(batch: readonly TopicMessages[], offsets: readonly GroupOffset[]): Promise<unknown> {
    try {
      const failures = await this.#sender.send(batch);
      if (failures.length > 0) return new CommitRefused(failures);
      for (const [group, own] of Map.groupBy(offsets, (offset) => offset.group)) {
        const patienceMs = this.#cluster.settings.transactionTimeoutMs * (1 - FILL_SHARE);
        const store = (): Promise<void> =>
          this.#cluster.atCoordinator('group', group, async (broker) =>
            storeOffsets(await this.#connect(broker), this.id, this.#identity, group, own),
          );
        await this.#cluster.repeat(`offsets of ${group}`, store, patienceMs);
      }
      return null;
    } catch (error) {
      return this.#isEpochError(error) ? carillonError('lane-fenced', `${this.id}: ${describe(error)}`) : error;
    }
  }

  /**
   * Ends the transaction. The end is repeated for as long as it takes to get an answer, since only the answer says what
   * became of the transaction; only the end of the lane or the bus stops it.
   */
  async #end(commit: boolean): Promise<void> {
    const request = (): Promise<Identity> =>
      this.#cluster.atCoordinator('transaction', this.id, async (broker) =>
        endTransaction(await this.#connect(broker), this.id, this.#identity, commit),
      );
    try {
      this.#identity = await this.#cluster.repeat(
        `${commit ? 'commit' : 'abort'} of ${this.id}`,
        request,
        Number.POSITIVE_INFINITY,
      );
      this.#endedMs = performance.now();
    } catch (error) {
      await this.#askForEpoch(error);
      if (commit) throw unavailable(`the transaction of ${this.id} was aborted`, error);
    }
  }

  /**
   * The coordinator refused our epoch. It does so when another owner took the id, and also when the transaction was open for
   * too long and it aborted it. Initialising with our own id and epoch (KIP-360) tells the two apart, for it never takes
   * the id from another owner: refused, we are fenced for good; granted, the transaction was surely not committed (a
   * committed one would have answered the repeated end).
   */
  async #askForEpoch(reason: unknown): Promise<void> {
    try {
      this.#identity = await this.#cluster.repeat(
        `epoch of ${this.id}`,
        () => initialise(this.#cluster, this.#connect, this.id, this.#identity),
        PATIENCE_MS,
      );
    } catch (error) {
      if (!this.#isEpochError(error)) throw error;
      this.#fenced = carillonError('lane-fenced', `${this.id}: ${describe(reason)}`);
      throw this.#fenced;
    }
  }

  #isEpochError(error: unknown): boolean {
    const cause = (error as { cause?: unknown }).cause;
    return [...codesOf(error), ...codesOf(cause)].some((code) => EPOCH_CODES.has(code));
  }
}

/** Clusters that passed the check; a cluster's features do not go back while it runs. */
const checked = new WeakSet<Cluster>();

async function requireTransactions(cluster: Cluster): Promise<void> {
  if (checked.has(cluster)) return;
  const { finalizedFeatures } = await cluster.repeat('features', async () =>
    apiVersionsV4.api.async(await cluster.anyone(), 'carillon', '1'),
  );
  const version = finalizedFeatures?.find(({ name }) => name === 'transaction.version')?.maxVersionLevel ?? 0;
  if (version < 2) {
    throw carillonError(
      'setup-refused',
      `Kafka's transaction.version is ${version} and must be 2 or newer (Kafka 4.0; kafka-features.sh upgrade --feature transaction.version=2)`,
    );
  }
  checked.add(cluster);
}
