import {
  type Bus,
  CommitRefused,
  type SendFailure,
  type TopicMessages,
  type TriggerBatch,
} from '../../src/ports/bus.ts';

/** A bus on which all topics and groups have a prefix, so that test files do not meet on one server. */
export function ownTopics(bus: Bus, prefix: string): Bus {
  const own = (topic: string): string => `${prefix}.${topic}`;
  // Triggers as bytes have their topics already, and no messages.
  const ownBatch = (batch: readonly TopicMessages[]): TopicMessages[] =>
    batch.map((one) => (one.messages.length === 0 ? one : { topic: own(one.topic), messages: one.messages }));
  const shown = (failures: readonly SendFailure[]): SendFailure[] =>
    failures.map((failure) => ({ ...failure, topic: failure.topic.slice(prefix.length + 1) }));
  const ownTriggers = (open: (() => TriggerBatch) | undefined): { triggers?(): TriggerBatch } =>
    open === undefined ? {} : { triggers: () => new OwnTriggers(open(), own) };
  return {
    ensureTopics: (topics) => bus.ensureTopics(topics.map((topic) => ({ ...topic, name: own(topic.name) }))),
    deleteTopics: (names) => bus.deleteTopics(names.map(own)),
    partitions: (topic) => bus.partitions(own(topic)),
    isLed: (topic, partition) => bus.isLed(own(topic), partition),
    offsets: (topic) => bus.offsets(own(topic)),
    async producer() {
      const producer = await bus.producer();
      return {
        ...ownTriggers(producer.triggers?.bind(producer)),
        send: async (batch) => shown(await producer.send(ownBatch(batch))),
        close: () => producer.close(),
      };
    },
    async lane(id) {
      const lane = await bus.lane(own(id));
      return {
        id,
        ...ownTriggers(lane.triggers?.bind(lane)),
        async commit(batch, offsets) {
          const ownOffsets = offsets?.map((one) => ({ ...one, group: own(one.group), topic: own(one.topic) }));
          await lane.commit(ownBatch(batch), ownOffsets).catch((error: unknown) => {
            throw error instanceof CommitRefused ? new CommitRefused(shown(error.failures)) : error;
          });
        },
        close: () => lane.close(),
      };
    },
    reader: (topic, partition, from) => bus.reader(own(topic), partition, from),
    join: (group, topic, handler) => bus.join(own(group), own(topic), handler),
    close: () => bus.close(),
  };
}

class OwnTriggers implements TriggerBatch {
  readonly #batch: TriggerBatch;
  readonly #own: (topic: string) => string;

  constructor(batch: TriggerBatch, own: (topic: string) => string) {
    this.#batch = batch;
    this.#own = own;
  }

  get count(): number {
    return this.#batch.count;
  }

  get bytes(): number {
    return this.#batch.bytes;
  }

  add(topic: string, ...trigger: Parameters<TriggerBatch['add']> extends [string, ...infer Rest] ? Rest : never): void {
    this.#batch.add(this.#own(topic), ...trigger);
  }

  message(topic: string, message: Parameters<TriggerBatch['message']>[1]): void {
    this.#batch.message(this.#own(topic), message);
  }

  toMessages(): readonly TopicMessages[] {
    return this.#batch.toMessages();
  }
}
