import type { Bus } from '../../ports/bus.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { Cluster } from './cluster.ts';
import { joinGroup } from './group.ts';
import { openLane } from './lane.ts';
import { offsetsOf } from './offsets.ts';
import { type KafkaOptions, settingsOf } from './options.ts';
import { openProducer } from './producer.ts';
import { openReader } from './reader.ts';
import { deleteTopics, ensureTopics } from './topics.ts';

export type { KafkaOptions } from './options.ts';

/** The bus on Kafka 4.0 or newer. It connects when it is first used; `close` ends everything that was opened by it. */
export function kafkaBus(options: KafkaOptions, telemetry: Telemetry): Bus {
  const cluster = new Cluster(settingsOf(options));
  const open = new Set<{ close(): Promise<void> }>();

  /** Keeps what must be closed with the bus until it is closed by itself. */
  function kept<T extends { close(): Promise<void> }>(one: T): T {
    const close = one.close.bind(one);
    open.add(one);
    one.close = () => {
      open.delete(one);
      return close();
    };
    return one;
  }

  return {
    ensureTopics: (topics) => ensureTopics(cluster, topics),
    deleteTopics: (names) => deleteTopics(cluster, names),
    partitions: async (topic) => (await cluster.leaders(topic)).length,
    isLed: async (topic, partition) => (await cluster.leaders(topic))[partition] != null,
    async offsets(topic) {
      const partitions = (await cluster.leaders(topic)).map((_, partition) => partition);
      const first = await offsetsOf(cluster, topic, partitions, 'first');
      const end = await offsetsOf(cluster, topic, partitions, 'end');
      return partitions.map((partition) => ({ first: first[partition]!, end: end[partition]! }));
    },
    producer: async () => kept(await openProducer(cluster, telemetry)),
    lane: async (id) => kept(await openLane(cluster, id)),
    reader: async (topic, partition, from) => kept(await openReader(cluster, topic, partition, from)),
    join: async (group, topic, handler) => kept(await joinGroup(cluster, group, topic, handler, telemetry)),
    async close() {
      await Promise.all([...open].map((one) => one.close()));
      await cluster.close();
    },
  };
}
