import type { Consumer, EachBatchPayload, Kafka, KafkaConfig, PartitionAssigner } from 'kafkajs';
import type { ConsumerOptions, RunningConsumer, TriggerHandler } from './consumer.ts';
import { Consumption, type Position } from './consumption.ts';
import { registerCodecs } from './kafka-codecs.ts';
import { PartitionProgress } from './progress.ts';
import type { ReceivedRecord } from './trigger.ts';

export interface KafkaConsumerOptions extends ConsumerOptions {
  /** A kafkajs client, or the settings of one (`{ clientId, brokers, ssl, sasl }`). */
  kafka: Kafka | KafkaConfig;
  /** The handler of each topic, such as `carillon.triggers.default`. */
  topics: Readonly<Record<string, TriggerHandler>>;
  /** Where a group without stored offsets begins. Default `first`, so that a new service misses nothing. */
  from?: 'first' | 'end';
  /** The group takes a member for dead after this time without a heartbeat, in ms. Default 30 s. */
  sessionTimeoutMs?: number;
  /** Default: a tenth of the session's time. Heartbeats go on while handlers run, however long those take. */
  heartbeatMs?: number;
  /** A rebalance waits this long for members whose handlers still run, in ms. Default 60 s. */
  rebalanceTimeoutMs?: number;
}

/**
 * A trigger consumer over Kafka, for business services.
 *
 * It reads committed records only (kafkajs's default, kept), so of an exactly-once cluster it sees each occurrence once.
 * At a rebalance the member first ends the handlers that run and stores their offsets, and joins then; so a partition moves
 * with nothing under way, unless a handler takes longer than the rebalance may (then the de-duplicator drops the copy).
 *
 * @throws KafkaJSError when the group cannot be joined at first; later troubles are waited out
 */
export async function consumeKafka(options: KafkaConsumerOptions): Promise<RunningConsumer> {
  const kafkajs = await import('kafkajs');
  const { Kafka: Client, logLevel, PartitionAssigners } = kafkajs;
  registerCodecs((kafkajs as unknown as { default: typeof kafkajs }).default);
  const client =
    'consumer' in options.kafka ? options.kafka : new Client({ logLevel: logLevel.ERROR, ...options.kafka });
  const member = new KafkaMember(client, PartitionAssigners.roundRobin, options);
  try {
    await member.start();
  } catch (error) {
    await member.consumption.stop().catch(() => {});
    throw error;
  }
  return member.consumption;
}

/** Group errors after which a new membership begins, where kafkajs would give up. */
const LOST_MEMBERSHIP = new Set(['ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID', 'FENCED_INSTANCE_ID']);
const REJOIN_MS = 1_000;

class KafkaMember {
  readonly consumption: Consumption;
  private readonly client: Kafka;
  private readonly roundRobin: PartitionAssigner;
  private readonly options: KafkaConsumerOptions;
  private readonly sessionTimeoutMs: number;
  private readonly heartbeatMs: number;
  private readonly rebalanceTimeoutMs: number;
  private consumer: Consumer | undefined;
  /** Of the last batch: its functions act on the membership that is in force when they are called. */
  private batch: Pick<EachBatchPayload, 'heartbeat' | 'commitOffsetsIfNecessary'> | undefined;
  private heart: NodeJS.Timeout | undefined;
  /** Set from the moment a rebalance is known until the member asks to join. */
  private draining: { done: boolean } | undefined;
  /** Between asking to join and having joined. */
  private joining = false;

  constructor(client: Kafka, roundRobin: PartitionAssigner, options: KafkaConsumerOptions) {
    this.client = client;
    this.roundRobin = roundRobin;
    this.options = options;
    this.sessionTimeoutMs = options.sessionTimeoutMs ?? 30_000;
    this.heartbeatMs = options.heartbeatMs ?? Math.ceil(this.sessionTimeoutMs / 10);
    this.rebalanceTimeoutMs = options.rebalanceTimeoutMs ?? 60_000;
    this.consumption = new Consumption((topic) => ownHandler(options.topics, topic), options, {
      store: (positions) => this.store(positions),
      pause: () => this.consumer?.pause(Object.keys(options.topics).map((topic) => ({ topic }))),
      leave: () => this.leave(),
    });
  }

  async start(): Promise<void> {
    const { group, topics, from = 'first' } = this.options;
    const consumer = this.client.consumer({
      groupId: group,
      sessionTimeout: this.sessionTimeoutMs,
      heartbeatInterval: this.heartbeatMs,
      rebalanceTimeout: this.rebalanceTimeoutMs,
      maxWaitTimeInMs: Math.min(500, this.heartbeatMs),
      partitionAssigners: [(context) => this.assigner(this.roundRobin(context))],
      // Joining is asked for again and again while handlers end; a broker that is away is waited for.
      retry: { initialRetryTime: 100, multiplier: 1.5, maxRetryTime: 1_000, retries: Number.MAX_SAFE_INTEGER },
    });
    this.consumer = consumer;
    const joined = new Promise<void>((resolve, reject) => {
      consumer.on(consumer.events.GROUP_JOIN, () => {
        this.joining = false;
        resolve();
      });
      consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
        reject(error);
        if (!restart) this.crashed(error);
      });
    });
    joined.catch(() => {});
    await consumer.connect();
    await consumer.subscribe({ topics: Object.keys(topics), fromBeginning: from === 'first' });
    await consumer.run({ autoCommit: false, eachBatch: (batch) => this.take(batch) });
    this.heart ??= setInterval(() => void this.beat(), this.heartbeatMs).unref();
    await joined;
  }

  /**
   * kafkajs has no hook that a rebalance waits for; it asks its assigner for the member's metadata before each join, and
   * asks again after a pause when the answer is "the group is rebalancing". So the member joins once its handlers have
   * ended; heartbeats keep its session until then.
   */
  private assigner(roundRobin: ReturnType<PartitionAssigner>): ReturnType<PartitionAssigner> {
    const protocol: typeof roundRobin.protocol = (subscription) => {
      this.drain();
      if (this.draining !== undefined && !this.draining.done) throw rebalancing();
      this.draining = undefined;
      this.consumption.partitions.clear();
      this.joining = true;
      return roundRobin.protocol(subscription);
    };
    return { ...roundRobin, assign: (group) => roundRobin.assign(group), protocol };
  }

  /** Begins to give all partitions back, at most once per rebalance. */
  private drain(): void {
    const { partitions, drainMs } = this.consumption;
    if (this.draining !== undefined || partitions.size === 0) return;
    const draining = { done: false };
    this.draining = draining;
    const within = Math.min(drainMs, this.rebalanceTimeoutMs * 0.8);
    void this.consumption.giveBack(partitions.values(), within).finally(() => {
      draining.done = true;
    });
  }

  private async beat(): Promise<void> {
    if (this.joining || this.batch === undefined) return;
    try {
      await this.batch.heartbeat();
    } catch {
      // The runner meets the same error, or this batch ends because its partition closes; both lead to a new join.
      this.drain();
    }
  }

  private async take({ batch, heartbeat, commitOffsetsIfNecessary, isRunning }: EachBatchPayload): Promise<void> {
    this.batch = { heartbeat, commitOffsetsIfNecessary };
    const { topic, partition, messages } = batch;
    if (this.draining !== undefined) throw rebalancing();
    if (this.consumption.stopped || !isRunning()) return;
    const id = `${topic}/${partition}`;
    let progress = this.consumption.partitions.get(id);
    if (progress === undefined) {
      progress = new PartitionProgress(topic, partition, Number(messages[0]?.offset ?? 0));
      this.consumption.partitions.set(id, progress);
    }
    for (const message of messages) {
      const record: ReceivedRecord = {
        topic,
        partition,
        offset: Number(message.offset),
        key: message.key?.toString() ?? '',
        value: message.value ?? new Uint8Array(),
        headers: textHeaders(message.headers ?? {}),
      };
      if (await this.consumption.dispatcher.add(progress, record)) continue;
      if (this.consumption.stopped) return;
      throw rebalancing();
    }
    progress.reached(Number(batch.lastOffset()) + 1);
  }

  private async store(positions: Position[]): Promise<void> {
    const topics = new Map<string, { partition: number; offset: string }[]>();
    for (const { topic, partition, next } of positions) {
      const partitions = topics.get(topic) ?? [];
      partitions.push({ partition, offset: String(next) });
      topics.set(topic, partitions);
    }
    await this.batch?.commitOffsetsIfNecessary({
      topics: [...topics].map(([topic, partitions]) => ({ topic, partitions })),
    });
  }

  /** kafkajs has given up. A lost membership is begun anew; anything else ends the consumer. */
  private crashed(error: Error): void {
    if (this.consumption.stopped) return;
    const cause = error.cause instanceof Error ? error.cause : error;
    if (!('type' in cause) || !LOST_MEMBERSHIP.has(String(cause.type))) {
      this.consumption.fail(error);
      return;
    }
    this.options.onEvent?.({ kind: 'disconnected', error });
    this.batch = undefined;
    this.drain();
    setTimeout(() => {
      if (!this.consumption.stopped) this.start().catch((again: unknown) => this.consumption.fail(again));
    }, REJOIN_MS);
  }

  private async leave(): Promise<void> {
    clearInterval(this.heart);
    await this.consumer?.disconnect();
  }
}

/** The error that makes kafkajs join again. */
function rebalancing(): Error {
  return Object.assign(new Error('the group is rebalancing; handlers of this member still run'), {
    name: 'KafkaJSProtocolError',
    type: 'REBALANCE_IN_PROGRESS',
    retriable: true,
  });
}

function ownHandler(topics: Readonly<Record<string, TriggerHandler>>, topic: string): TriggerHandler | undefined {
  return Object.hasOwn(topics, topic) ? topics[topic] : undefined;
}

type KafkaHeaders = NonNullable<EachBatchPayload['batch']['messages'][number]['headers']>;

/** Headers as text; of a repeated header the last one counts. */
function textHeaders(headers: KafkaHeaders): Record<string, string> {
  const text: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const last = Array.isArray(value) ? value.at(-1) : value;
    if (last !== undefined) text[name] = last.toString();
  }
  return text;
}
