import { Consumer } from '@platformatic/kafka';
import { carillonError } from '../../core/errors.ts';
import type { GroupHandler, GroupMember } from '../../ports/bus.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Cluster } from './cluster.ts';
import { storeOffset } from './group-offsets.ts';
import { PartitionWorker } from './group-partition.ts';
import { GroupReader } from './group-reader.ts';
import { describe, unavailable } from './protocol-errors.ts';

const HEARTBEAT_MS = 1_000;
/** The group waits this long for its members to end their batches and join again, in ms. */
const REBALANCE_MS = 60_000;
const LEAVE_MS = 5_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * A member of a consumer group. The library's consumer keeps the membership (join, sync, heartbeats, leave); records come
 * through our reader, so a group sees what a reader sees.
 *
 * Every new distribution takes all partitions away first: the library asks for the member's metadata before each join, and
 * we answer when the batches that run have ended. So no partition is worked on by two members, as long as a batch ends
 * within the session's time; beyond, the transactional ids are the fence.
 */
export async function joinGroup(
  cluster: Cluster,
  group: string,
  topic: string,
  handler: GroupHandler,
  telemetry: Telemetry,
): Promise<GroupMember> {
  await cluster.leaders(topic);
  const member = new KafkaMember(cluster, group, topic, handler, telemetry);
  await member.join();
  return member;
}

class KafkaMember implements GroupMember {
  readonly #cluster: Cluster;
  readonly #group: string;
  readonly #topic: string;
  readonly #handler: GroupHandler;
  readonly #telemetry: Telemetry;
  readonly #consumer: Consumer;
  #reader: GroupReader | null = null;
  #workers = new Map<number, PartitionWorker>();
  #closed = false;

  constructor(cluster: Cluster, group: string, topic: string, handler: GroupHandler, telemetry: Telemetry) {
    this.#cluster = cluster;
    this.#group = group;
    this.#topic = topic;
    this.#handler = handler;
    this.#telemetry = telemetry;
    const { clientId, bootstrap, connection, sessionTimeoutMs } = cluster.settings;
    this.#consumer = new Consumer({
      ...connection,
      clientId,
      groupId: group,
      bootstrapBrokers: bootstrap,
      sessionTimeout: sessionTimeoutMs,
      rebalanceTimeout: REBALANCE_MS,
      heartbeatInterval: HEARTBEAT_MS,
      protocolsMetadata: () => this.#release().then(() => Buffer.alloc(0)),
    });
    this.#consumer.topics.track(topic);
    this.#consumer.on('consumer:group:join', ({ assignments }) => {
      this.#take(assignments?.find((one) => one.topic === topic)?.partitions ?? []);
    });
    this.#consumer.on('consumer:group:rejoin', () => {
      if (!this.#consumer.isActive() && !this.#closed) void this.#joinAgain();
    });
    this.#consumer.on('error', (error: Error) => this.#tell('a consumer group had an error', error));
  }

  async join(): Promise<void> {
    try {
      await this.#consumer.joinGroup({});
    } catch (error) {
      await this.close();
      throw unavailable(`joining group ${this.#group}`, error);
    }
  }

  /** The library gives up after some errors in a row; a member does not. */
  async #joinAgain(): Promise<void> {
    for (let pauseMs = FIRST_PAUSE_MS; !this.#closed; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        await this.#consumer.joinGroup({});
        return;
      } catch (error) {
        this.#tell('a consumer group could not be joined again yet', error);
        await this.#cluster.pause(pauseMs);
      }
    }
  }

  async commit(partition: number, next: number): Promise<void> {
    const worker = this.#workers.get(partition);
    if (worker === undefined) throw carillonError('unavailable', `${this.#topic}/${partition} is another member's`);
    await storeOffset(this.#cluster, worker.name, next);
  }

  async close(): Promise<void> {
    this.#closed = true;
    // A member that stops takes no part in what is distributed from now on.
    await this.#release();
    // Where the coordinator does not answer, the group finds out by the end of the session.
    const leaving = this.#consumer.close(true).catch((error: unknown) => {
      const fields = { group: this.#group, topic: this.#topic, error: describe(error) };
      this.#telemetry.event('warn', 'a consumer group was not left', fields);
    });
    await Promise.race([leaving, this.#cluster.pause(LEAVE_MS)]);
  }

  #take(partitions: readonly number[]): void {
    if (this.#closed) return;
    const { generationId, memberId } = this.#consumer;
    const reader = new GroupReader(this.#cluster, this.#topic, partitions.length);
    this.#reader = reader;
    for (const partition of partitions) {
      const name = { group: this.#group, topic: this.#topic, partition, generationId, memberId: memberId ?? '' };
      this.#workers.set(partition, new PartitionWorker(this.#cluster, reader, name, this.#handler, this.#telemetry));
    }
  }

  async #release(): Promise<void> {
    const workers = [...this.#workers.values()];
    const reader = this.#reader;
    await Promise.all(workers.map((worker) => worker.stop()));
    await reader?.close();
    this.#workers.clear();
  }

  #tell(message: string, error: unknown): void {
    if (this.#closed) return;
    this.#telemetry.event('warn', message, { group: this.#group, topic: this.#topic, error: describe(error) });
  }
}
