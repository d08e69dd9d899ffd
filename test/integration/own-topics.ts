import type { Bus, TopicMessages } from '../../src/ports/bus.ts';

/** A bus on which all topics and groups have a prefix, so that test files do not meet on one server. */
export function ownTopics(bus: Bus, prefix: string): Bus {
  const own = (topic: string): string => `${prefix}.${topic}`;
  const ownBatch = (batch: readonly TopicMessages[]): TopicMessages[] =>
    batch.map(({ topic, messages }) => ({ topic: own(topic), messages }));
  return {
    ensureTopics: (topics) => bus.ensureTopics(topics.map((topic) => ({ ...topic, name: own(topic.name) }))),
    deleteTopics: (names) => bus.deleteTopics(names.map(own)),
    partitions: (topic) => bus.partitions(own(topic)),
    offsets: (topic) => bus.offsets(own(topic)),
    async producer() {
      const producer = await bus.producer();
      return { send: (batch) => producer.send(ownBatch(batch)), close: () => producer.close() };
    },
    async lane(id) {
      const lane = await bus.lane(own(id));
      return {
        id,
        commit: (batch, offsets) =>
          lane.commit(
            ownBatch(batch),
            offsets?.map((offset) => ({ ...offset, group: own(offset.group), topic: own(offset.topic) })),
          ),
        close: () => lane.close(),
      };
    },
    reader: (topic, partition, from) => bus.reader(own(topic), partition, from),
    join: (group, topic, handler) => bus.join(own(group), own(topic), handler),
    close: () => bus.close(),
  };
}
