import { randomUUID } from 'node:crypto';
import { carillonError } from '../../core/errors.ts';
import type { BusRecord, GroupHandler, GroupMember, GroupPartition } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Log } from './log.ts';
import { LocalReader, offsetsOf } from './reader.ts';

/** A read of a partition waits this long for records, in ms; it is woken by them, so this is only a round trip of nothing. */
const READ_WAIT_MS = 60_000;
/** Pause before a batch that was refused by its handler comes again, in ms. */
const REPEAT_AFTER_MS = 100;

/** How many partitions the member of a rank works on. Example: 8 partitions, 3 members -> 3, 3, 2. */
function fairShare(partitions: number, members: number, rank: number): number {
  return Math.floor(partitions / members) + (rank < partitions % members ? 1 : 0);
}

export interface GroupContext {
  log: Log;
  clock: Clock;
  telemetry: Telemetry;
  commit(group: string, topic: string, partition: number, next: number): Promise<void>;
}

interface Work {
  stop: AbortController;
  ended: Promise<void>;
}

/**
 * A member of a consumer group. Members balance themselves without a leader: each knows its fair share from the table of
 * members, frees what it has above that when its last batch has ended, and takes free partitions up to it. A partition is
 * only ever taken when nobody has it, so no two members work on it.
 */
export class LocalMember implements GroupMember {
  readonly #context: GroupContext;
  readonly #group: string;
  readonly #topic: string;
  readonly #handler: GroupHandler;
  readonly #name = randomUUID();
  readonly #works = new Map<number, Work>();
  readonly #unwatch: () => void;
  #closing: Promise<void> | null = null;

  readonly #closed: () => void;

  constructor(context: GroupContext, group: string, topic: string, handler: GroupHandler, closed: () => void) {
    offsetsOf(context.log, topic);
    this.#context = context;
    this.#group = group;
    this.#topic = topic;
    this.#handler = handler;
    this.#closed = closed;
    this.#unwatch = context.log.watch([topic], () => this.#balance());
    context.log.groups.enter(group, topic, this.#name);
    this.#balance();
  }

  #balance(): void {
    if (this.#closing !== null) return;
    const { log } = this.#context;
    const partitions = log.offsets(this.#topic)?.length ?? 0;
    const members = log.groups.members(this.#group, this.#topic);
    const rank = members.indexOf(this.#name);
    const share = rank < 0 ? 0 : fairShare(partitions, members.length, rank);
    const staying = [...this.#works].filter(([, work]) => !work.stop.signal.aborted);
    for (const [, work] of staying.slice(share)) work.stop.abort();
    for (let p = 0; p < partitions && this.#works.size < share; p += 1) {
      if (!this.#works.has(p) && log.groups.claim(this.#group, this.#topic, p, this.#name)) this.#begin(p);
    }
  }

  #begin(partition: number): void {
    const stop = new AbortController();
    const ended = this.#work(partition, stop.signal)
      .catch((error: unknown) => this.#tell('error', 'work on a partition ended', { partition, error: String(error) }))
      .finally(() => {
        this.#works.delete(partition);
        this.#context.log.groups.release(this.#group, this.#topic, partition, this.#name);
      });
    this.#works.set(partition, { stop, ended });
  }

  async #work(partition: number, signal: AbortSignal): Promise<void> {
    const { log, clock } = this.#context;
    const { first } = offsetsOf(log, this.#topic)[partition]!;
    const next = Math.max(first, log.groups.committed(this.#group, this.#topic, partition) ?? first);
    // Nobody can lose a partition here while it works on it, so the holder needs no generation.
    const holder = { generation: 0, member: this.#name };
    const given: GroupPartition = { topic: this.#topic, partition, next, signal, holder };
    if (!(await this.#repeated(signal, async () => this.#handler.assigned?.(given)))) return;
    let reader = new LocalReader(log, clock, this.#topic, partition, next);
    signal.addEventListener('abort', () => void reader.close());
    while (!signal.aborted) {
      const records = await reader.read(READ_WAIT_MS).catch((error: unknown) => {
        reader = this.#afterLoss(partition, reader, error);
        return [] as BusRecord[];
      });
      if (records.length === 0 || signal.aborted) continue;
      await this.#repeated(signal, () => this.#handler.batch(given, records));
    }
    await this.#attempt(async () => this.#handler.revoked?.(given));
  }

  /** What the bound in bytes removed before this group had read it is gone: the group goes on with the first record. */
  #afterLoss(partition: number, reader: LocalReader, error: unknown): LocalReader {
    const { log, clock } = this.#context;
    const fields = { partition, position: reader.position, error: String(error) };
    this.#tell('error', 'a consumer group cannot read on where it stood', fields);
    if (log.offsets(this.#topic)?.[partition] === undefined) {
      this.#works.get(partition)?.stop.abort();
      return reader;
    }
    void reader.close();
    return new LocalReader(log, clock, this.#topic, partition, 'first');
  }

  /** Repeats something until it does not throw; false: the partition was taken away first. */
  async #repeated(signal: AbortSignal, run: () => Promise<void>): Promise<boolean> {
    while (!signal.aborted) {
      if (await this.#attempt(run)) return true;
      await this.#context.clock.sleep(REPEAT_AFTER_MS, signal);
    }
    return false;
  }

  async #attempt(run: () => Promise<void>): Promise<boolean> {
    try {
      await run();
      return true;
    } catch (error) {
      this.#context.telemetry.count('group_handler_errors_total', { group: this.#group });
      this.#tell('warn', 'the handler of a consumer group refused', { error: String(error) });
      return false;
    }
  }

  #tell(level: 'warn' | 'error', message: string, fields: Record<string, unknown>): void {
    this.#context.telemetry.event(level, message, { group: this.#group, topic: this.#topic, ...fields });
  }

  async commit(partition: number, next: number): Promise<void> {
    if (!this.#works.has(partition)) {
      throw carillonError('unavailable', `${this.#topic}/${partition} is no longer this member's`);
    }
    await this.#context.commit(this.#group, this.#topic, partition, next);
  }

  close(): Promise<void> {
    this.#closing ??= (async () => {
      this.#unwatch();
      for (const work of this.#works.values()) work.stop.abort();
      await Promise.all([...this.#works.values()].map((work) => work.ended));
      this.#context.log.groups.leave(this.#group, this.#topic, this.#name);
      this.#closed();
    })();
    return this.#closing;
  }
}
