import type {
  Bus,
  BusLane,
  BusProducer,
  BusReader,
  GroupHandler,
  GroupMember,
  GroupPartition,
  TopicMessages,
} from '../../src/ports/bus.ts';
import type { Faults } from './faults.ts';
import { never, type SimProcess } from './process.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface BusWatch {
  /** Messages leave the process. */
  sending(process: SimProcess, batch: readonly TopicMessages[], lane: string | null): void;
}

/** A broker takes a member of a group for dead when it was silent for this long, in ms. */
const SESSION_MS = 6_000;

/** The bus as one process sees it. */
export function faultyBus(bus: Bus, process: SimProcess, faults: Faults, time: VirtualTime, watch: BusWatch): Bus {
  const certain = <T>(method: string, run: () => Promise<T>): Promise<T> =>
    faults.call(process, { server: 'kafka', method, run, certain: true });
  return {
    ensureTopics: (topics) => certain('ensureTopics', () => bus.ensureTopics(topics)),
    deleteTopics: (names) => certain('deleteTopics', () => bus.deleteTopics(names)),
    partitions: (topic) => certain('partitions', () => bus.partitions(topic)),
    isLed: (topic, partition) => certain('isLed', () => bus.isLed(topic, partition)),
    offsets: (topic) => certain('offsets', () => bus.offsets(topic)),
    async producer() {
      const producer = await certain('producer', () => bus.producer());
      return faultyProducer(producer, process, faults, watch);
    },
    async lane(id) {
      // Whoever did not hear that the lane is open has fenced its holder all the same.
      const lane = await faults.call(process, { server: 'kafka', method: 'lane', run: () => bus.lane(id) });
      return faultyLane(lane, process, faults, time, watch);
    },
    async reader(topic, partition, from) {
      const reader = await certain('reader', () => bus.reader(topic, partition, from));
      return faultyReader(reader, process, faults);
    },
    async join(group, topic, handler) {
      return await certain('join', () => FaultyMember.join(bus, process, time, group, topic, handler));
    },
    close: async () => {},
  };
}

function faultyProducer(producer: BusProducer, process: SimProcess, faults: Faults, watch: BusWatch): BusProducer {
  return {
    send: (batch) => {
      watch.sending(process, batch, null);
      return faults.call(process, {
        server: 'kafka',
        method: 'send',
        run: () => producer.send(batch),
        part: () => producer.send(batch.slice(0, Math.ceil(batch.length / 2)).map(halfOf)),
      });
    },
    close: async () => {},
  };
}

/** What arrives of a request of which only some partitions take their part. */
function halfOf({ topic, messages }: TopicMessages): TopicMessages {
  return { topic, messages: messages.filter(({ partition }) => partition % 2 === 0) };
}

function faultyLane(lane: BusLane, process: SimProcess, faults: Faults, time: VirtualTime, watch: BusWatch): BusLane {
  return {
    id: lane.id,
    async commit(batch, offsets) {
      const begunMs = time.nowMs;
      watch.sending(process, batch, lane.id);
      const run = (): Promise<void> => lane.commit(batch, offsets);
      await faults.call(process, { server: 'kafka', method: 'commit', run, certain: true });
      process.committedMs.set(lane.id, begunMs);
    },
    close: async () => {},
  };
}

function faultyReader(reader: BusReader, process: SimProcess, faults: Faults): BusReader {
  process.readers.add(reader);
  const call = <T>(method: string, run: () => Promise<T>): Promise<T> =>
    faults.call(process, { server: 'kafka', method, run, certain: true });
  return {
    get position() {
      return reader.position;
    },
    read: (maxWaitMs, maxRecords) => call('read', () => reader.read(maxWaitMs, maxRecords)),
    caughtUp: () => call('caughtUp', () => reader.caughtUp()),
    async close() {
      process.readers.delete(reader);
      await reader.close();
    },
  };
}

/**
 * A member of a group whose process may die or be thrown out while its handler is at work: the group goes on at once, and
 * what the handler has begun goes on beside it, as that of a process that has not heard yet.
 */
class FaultyMember implements GroupMember {
  #member: GroupMember | null = null;
  /** Where the process leaves in order, and may die before it has. */
  #leaving: GroupMember | null = null;
  #out = Promise.withResolvers<never>();
  #outside = false;
  #closed = false;
  /** What the handler does, one thing after the other. */
  #running: Promise<void> = Promise.resolve();
  readonly #join: (handler: GroupHandler) => Promise<GroupMember>;
  readonly #process: SimProcess;
  readonly #handler: GroupHandler;

  private constructor(
    process: SimProcess,
    handler: GroupHandler,
    join: (handler: GroupHandler) => Promise<GroupMember>,
  ) {
    this.#process = process;
    this.#handler = handler;
    this.#join = join;
    this.#out.promise.catch(() => {});
  }

  static async join(
    bus: Bus,
    process: SimProcess,
    time: VirtualTime,
    group: string,
    topic: string,
    handler: GroupHandler,
  ): Promise<FaultyMember> {
    const faulty = new FaultyMember(process, handler, (one) => bus.join(group, topic, one));
    await faulty.#enter();
    process.atDeath.push(() => time.after(SESSION_MS, () => faulty.throwOut(null)));
    process.groups.push(faulty);
    return faulty;
  }

  async #enter(): Promise<void> {
    const { assigned, batch, revoked } = this.#handler;
    this.#outside = false;
    this.#member = await this.#join({
      ...(assigned === undefined
        ? {}
        : { assigned: (partition: GroupPartition) => this.#do(() => assigned(partition)) }),
      batch: (partition, records) => this.#do(() => batch(partition, records)),
      ...(revoked === undefined
        ? {}
        : { revoked: (partition: GroupPartition) => this.#do(() => revoked(partition), true) }),
    });
  }

  /** Ends when it is done, or with an error when the process is no member any more. */
  #do(run: () => Promise<void>, ends = false): Promise<void> {
    if (this.#outside && !ends) return Promise.reject(new Error('no member of the group (simulated)'));
    const done = this.#running.then(async () => {
      if (this.#process.dead) return await never();
      await this.#process.running();
      return await run();
    });
    this.#running = done.catch(() => {});
    if (this.#outside) return Promise.resolve();
    return Promise.race([done, this.#out.promise]);
  }

  /** The broker throws the member out; it comes back when `again` ends (null: never). */
  throwOut(again: Promise<void> | null): void {
    const member = this.#member ?? this.#leaving;
    if (member === null) return;
    this.#member = null;
    this.#outside = true;
    this.#out.reject(new Error('thrown out of the group (simulated)'));
    this.#out = Promise.withResolvers<never>();
    this.#out.promise.catch(() => {});
    const over = member.close();
    if (again === null) return;
    void Promise.all([over, again, this.#running]).then(async () => {
      if (!this.#closed && !this.#process.dead) await this.#enter();
    });
  }

  async commit(partition: number, next: number): Promise<void> {
    await this.#member?.commit(partition, next);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const member = this.#member;
    this.#member = null;
    this.#leaving = member;
    await member?.close();
    await this.#running;
  }
}
