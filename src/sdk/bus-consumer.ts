import { triggerTopic } from '../core/topics.ts';
import type { ConsumerOptions, RunningConsumer, TriggerHandler } from './consumer.ts';
import { Consumption } from './consumption.ts';
import { PartitionProgress } from './progress.ts';
import type { ReceivedRecord } from './trigger.ts';

/** The part of the bus that a consumer in the same process uses. */
export interface TriggerBus {
  join(group: string, topic: string, handler: TriggerBusHandler): Promise<TriggerBusMember>;
}

interface TriggerBusMember {
  commit(partition: number, next: number): Promise<void>;
  close(): Promise<void>;
}

interface TriggerBusPartition {
  topic: string;
  partition: number;
  next: number;
  signal: AbortSignal;
}

interface TriggerBusRecord {
  partition: number;
  offset: number;
  key: string | null;
  value: Uint8Array | null;
  headers: Readonly<Record<string, string>>;
}

export interface TriggerBusHandler {
  assigned(partition: TriggerBusPartition): Promise<void>;
  batch(partition: TriggerBusPartition, records: readonly TriggerBusRecord[]): Promise<void>;
  revoked(partition: TriggerBusPartition): Promise<void>;
}

export interface BusConsumerOptions extends ConsumerOptions {
  handler: TriggerHandler;
  /** Default `default`. */
  cluster?: string;
  /** Topic of the logical cluster, if it is not `carillon.triggers.CLUSTER`. */
  topic?: string;
}

/** A trigger consumer in the process that has the bus: for services that run Carillon embedded. */
export async function consumeBus(bus: TriggerBus, options: BusConsumerOptions): Promise<RunningConsumer> {
  const { group, handler, cluster = 'default', topic = triggerTopic(cluster) } = options;
  let member: TriggerBusMember | undefined;
  const consumption = new Consumption(() => handler, options, {
    store: async (positions) => {
      for (const { partition, next } of positions) await member?.commit(partition, next);
    },
    pause: () => {},
    leave: async () => member?.close(),
  });
  const { partitions, dispatcher } = consumption;
  const idOf = ({ partition }: { partition: number }) => `${topic}/${partition}`;
  member = await bus.join(group, topic, {
    async assigned(partition) {
      const progress = new PartitionProgress(topic, partition.partition, partition.next);
      partition.signal.addEventListener('abort', () => progress.close(), { once: true });
      partitions.set(idOf(partition), progress);
    },
    async batch(partition, records) {
      const progress = partitions.get(idOf(partition));
      if (progress === undefined) return;
      for (const record of records) {
        if (!(await dispatcher.add(progress, received(topic, record)))) return;
      }
    },
    async revoked(partition) {
      const progress = partitions.get(idOf(partition));
      if (progress === undefined) return;
      await consumption.giveBack([progress]);
      if (partitions.get(idOf(partition)) === progress) partitions.delete(idOf(partition));
    },
  });
  return consumption;
}

function received(topic: string, { partition, offset, key, value, headers }: TriggerBusRecord): ReceivedRecord {
  return { topic, partition, offset, key: key ?? '', value: value ?? new Uint8Array(), headers };
}
