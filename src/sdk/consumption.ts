import { setTimeout as delay } from 'node:timers/promises';
import type { ConsumerOptions, RunningConsumer, TriggerHandler } from './consumer.ts';
import { Dispatcher } from './dispatcher.ts';
import type { PartitionProgress } from './progress.ts';

/** The offset of the first record of a partition that is not done. */
export interface Position {
  topic: string;
  partition: number;
  next: number;
}

/** What a transport does for a consumption. */
export interface Transport {
  /** Stores offsets of the group; a rejection is told and tried again with what is newer by then. */
  store(positions: Position[]): Promise<void>;
  /** Fetches nothing more. */
  pause(): void;
  /** Leaves the group and closes connections; all that could be stored is. */
  leave(): Promise<void>;
}

/**
 * One consumer at work: its dispatcher, the partitions that it has, the offsets that are stored as they move on, and one
 * way to end, whether somebody asked for it or a trigger failed. Kafka, HTTP and in-process consumers are transports of it.
 */
export class Consumption implements RunningConsumer {
  readonly dispatcher: Dispatcher;
  /** Partitions that this member has now, by `TOPIC/PARTITION`. */
  readonly partitions = new Map<string, PartitionProgress>();
  readonly finished: Promise<void>;
  readonly drainMs: number;
  private readonly options: ConsumerOptions;
  private readonly transport: Transport;
  private finish: (error?: unknown) => void = () => {};
  private readonly everyMs: number;
  private storing: Promise<void> | undefined;
  private stopping: Promise<void> | undefined;

  constructor(handler: (topic: string) => TriggerHandler | undefined, options: ConsumerOptions, transport: Transport) {
    this.options = options;
    this.transport = transport;
    this.everyMs = options.commitEveryMs ?? 200;
    this.drainMs = options.drainMs ?? 30_000;
    this.finished = new Promise((resolve, reject) => {
      this.finish = (error) => (error === undefined ? resolve() : reject(error));
    });
    this.dispatcher = new Dispatcher(
      handler,
      options,
      () => this.storeSoon(),
      (error) => this.fail(error),
    );
  }

  get stopped(): boolean {
    return this.stopping !== undefined;
  }

  async stop(): Promise<void> {
    await this.end();
  }

  /** Ends the consumer as `stop` does; `finished` rejects with the error. */
  fail(error: unknown): void {
    this.end(error).catch(() => {});
  }

  /** Gives partitions back in good order: waits for what runs, stores what is done. */
  async giveBack(partitions: Iterable<PartitionProgress>, drainMs = this.drainMs): Promise<void> {
    const given = [...partitions];
    await this.dispatcher.drain(given, drainMs);
    await this.storing;
    await this.store(given);
  }

  private end(error?: unknown): Promise<void> {
    this.stopping ??= this.endOnce(error);
    return this.stopping;
  }

  private async endOnce(error?: unknown): Promise<void> {
    try {
      this.transport.pause();
      await this.giveBack(this.partitions.values());
      await this.transport.leave();
      await this.options.deduplicator?.close?.();
      this.finish(error);
    } catch (fault) {
      this.finish(error ?? fault);
      throw fault;
    }
  }

  /** One request at a time, `commitEveryMs` apart, with what is newest then. */
  private storeSoon(): void {
    this.storing ??= delay(this.everyMs, undefined, { ref: false })
      .then(() => this.store(this.partitions.values()))
      .finally(() => {
        this.storing = undefined;
        if (!this.stopped && this.toStore(this.partitions.values()).length > 0) this.storeSoon();
      });
  }

  private toStore(partitions: Iterable<PartitionProgress>): { progress: PartitionProgress; next: number }[] {
    const positions: { progress: PartitionProgress; next: number }[] = [];
    for (const progress of partitions) {
      const next = progress.toCommit();
      if (next !== null) positions.push({ progress, next });
    }
    return positions;
  }

  private async store(partitions: Iterable<PartitionProgress>): Promise<void> {
    const moved = this.toStore(partitions);
    if (moved.length === 0) return;
    try {
      await this.transport.store(moved.map(({ progress: { topic, partition }, next }) => ({ topic, partition, next })));
      for (const { progress, next } of moved) progress.stored(next);
    } catch (error) {
      this.options.onEvent?.({ kind: 'commit-failed', error });
    }
  }
}
