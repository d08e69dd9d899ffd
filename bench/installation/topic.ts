import { setTimeout as sleep } from 'node:timers/promises';
import { Admin } from '@platformatic/kafka';
import { FetchConnection } from '../reader/fetch-connection.ts';

/** A topic as the benchmarks make it, before the API would. */
export interface TopicPlan {
  name: string;
  partitions: number;
  /** The broker's clock in each batch: at-least-once, where it judges the worker. Transactions have it in their marks. */
  brokerTime: boolean;
  /** None: as its producers send it. */
  compression: 'none' | 'lz4' | 'zstd';
  /** Kept over all partitions, in bytes; null: everything, until the end of the run. */
  retentionBytes: number | null;
}

export async function makeTopic(broker: string, plan: TopicPlan): Promise<void> {
  const perPartition = plan.retentionBytes === null ? -1 : Math.ceil(plan.retentionBytes / plan.partitions);
  const segment = plan.retentionBytes === null ? 1024 ** 3 : Math.max(16 * 1024 ** 2, Math.floor(perPartition / 4));
  const configs = [
    { name: 'message.timestamp.type', value: plan.brokerTime ? 'LogAppendTime' : 'CreateTime' },
    { name: 'compression.type', value: plan.compression === 'none' ? 'producer' : plan.compression },
    { name: 'retention.bytes', value: String(perPartition) },
    { name: 'segment.bytes', value: String(segment) },
  ];
  await withAdmin(broker, async (admin) => {
    await admin.createTopics({ topics: [plan.name], partitions: plan.partitions, replicas: 1, configs });
  });
  await led(broker, plan);
}

const LED_WAIT_MS = 30_000;

/** A broker answers that a topic is made before it leads its partitions: it is asked to read until it does. */
async function led(broker: string, { name, partitions }: TopicPlan): Promise<void> {
  const connection = await FetchConnection.open(broker, name);
  const wanted = Array.from({ length: partitions }, (_, partition) => [partition, 0] as const);
  const from = performance.now();
  try {
    for (;;) {
      try {
        await connection.fetch(wanted, 0);
        return;
      } catch (error) {
        if (performance.now() - from > LED_WAIT_MS) throw error;
        await sleep(50);
      }
    }
  } finally {
    connection.close();
  }
}

export async function deleteTopic(broker: string, name: string): Promise<void> {
  await withAdmin(broker, (admin) => admin.deleteTopics({ topics: [name] }));
}

async function withAdmin(broker: string, work: (admin: Admin) => Promise<void>): Promise<void> {
  const admin = new Admin({ clientId: 'bench', bootstrapBrokers: [broker] });
  try {
    await work(admin);
  } finally {
    await admin.close();
  }
}
