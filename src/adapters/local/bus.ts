import { carillonError } from '../../core/errors.ts';
import {
  type Bus,
  type BusLane,
  type BusProducer,
  CommitRefused,
  type GroupOffset,
  type TopicMessages,
  type TriggerBatch,
} from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { LocalMember } from './group.ts';
import type { Log, LogEntry, WriteResult } from './log.ts';
import { LocalReader, offsetsOf } from './reader.ts';

/** Records that may wait for the next durable step; beyond, `too-many-requests`. Bounds memory, not throughput. */
const WAITING_RECORDS = 1_000_000;

interface Waiting {
  entry: LogEntry;
  resolve(result: WriteResult): void;
  reject(error: unknown): void;
}

/** Writes of one turn of the event loop share one durable step: group commit. */
class WriteQueue {
  readonly #log: Log;
  #waiting: Waiting[] = [];
  #records = 0;
  #closed = false;

  constructor(log: Log) {
    this.#log = log;
  }

  write(entry: LogEntry): Promise<WriteResult> {
    if (this.#closed) return Promise.reject(carillonError('unavailable', 'the bus is closed'));
    const records = entry.batch.reduce((sum, { messages }) => sum + messages.length, 0);
    if (this.#records > 0 && this.#records + records > WAITING_RECORDS) {
      return Promise.reject(carillonError('too-many-requests', `${this.#records} records wait to be written`));
    }
    this.#records += records;
    const { promise, resolve, reject } = Promise.withResolvers<WriteResult>();
    this.#waiting.push({ entry, resolve, reject });
    if (this.#waiting.length === 1) this.#log.soon(() => this.flush());
    return promise;
  }

  flush(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    this.#records = 0;
    try {
      const results = this.#log.write(waiting.map((one) => one.entry));
      for (const [i, one] of waiting.entries()) one.resolve(results[i]!);
    } catch (error) {
      for (const one of waiting) one.reject(error);
    }
  }

  close(): void {
    this.flush();
    this.#closed = true;
  }
}

class LocalProducer implements BusProducer {
  readonly #queue: WriteQueue;
  readonly #log: Log;

  constructor(queue: WriteQueue, log: Log) {
    this.#queue = queue;
    this.#log = log;
  }

  prepare(...trigger: Parameters<NonNullable<BusProducer['prepare']>>): void {
    this.#log.prepare?.(...trigger);
  }

  async send(batch: readonly TopicMessages[]): ReturnType<BusProducer['send']> {
    const result = await this.#queue.write({ batch, offsets: [] });
    return result.fenced ? [] : result.failures;
  }

  async close(): Promise<void> {}
}

class LocalLane implements BusLane {
  readonly id: string;
  readonly #epoch: number;
  readonly #queue: WriteQueue;
  readonly triggers?: () => TriggerBatch;

  constructor(id: string, log: Log, queue: WriteQueue) {
    this.id = id;
    this.#epoch = log.openLane(id);
    this.#queue = queue;
    if (log.triggers !== undefined) this.triggers = log.triggers.bind(log);
  }

  async commit(batch: readonly TopicMessages[], offsets: readonly GroupOffset[] = []): Promise<void> {
    const lane = { id: this.id, epoch: this.#epoch };
    const result = await this.#queue.write({ lane, batch, offsets });
    if (result.fenced) throw carillonError('lane-fenced', this.id);
    if (result.failures.length > 0) throw new CommitRefused(result.failures);
  }

  async close(): Promise<void> {}
}

/** The bus of one process over a log of its own: everything but the storage, which is memory's or SQLite's. */
export function localBus(log: Log, clock: Clock, telemetry: Telemetry): Bus {
  const queue = new WriteQueue(log);
  const readers = new Set<LocalReader>();
  const members = new Set<LocalMember>();
  const context = {
    log,
    clock,
    telemetry,
    async commit(group: string, topic: string, partition: number, next: number): Promise<void> {
      await queue.write({ batch: [], offsets: [{ group, topic, partition, next }] });
    },
  };
  let closing: Promise<void> | null = null;

  async function closeAll(): Promise<void> {
    await Promise.all([...members].map((member) => member.close()));
    for (const reader of readers) await reader.close();
    queue.close();
    log.close();
  }

  return {
    ensureTopics: async (topics) => log.ensureTopics(topics),
    deleteTopics: async (names) => log.deleteTopics(names),
    partitions: async (topic) => offsetsOf(log, topic).length,
    isLed: async (topic, partition) => partition < offsetsOf(log, topic).length,
    offsets: async (topic) => offsetsOf(log, topic),
    producer: async () => new LocalProducer(queue, log),
    async lane(id) {
      // What earlier holders have handed in is decided before they are fenced.
      queue.flush();
      return new LocalLane(id, log, queue);
    },
    async reader(topic, partition, from) {
      queue.flush();
      const reader = new LocalReader(log, clock, topic, partition, from);
      readers.add(reader);
      reader.closed.addEventListener('abort', () => readers.delete(reader));
      return reader;
    },
    async join(group, topic, handler) {
      const member: LocalMember = new LocalMember(context, group, topic, handler, () => members.delete(member));
      members.add(member);
      return member;
    },
    close() {
      closing ??= closeAll();
      return closing;
    },
  };
}
