import { type KafkaOptions, kafkaBus } from '../adapters/kafka/bus.ts';
import { connectMongo } from '../adapters/mongodb/connect.ts';
import { connectRedis } from '../adapters/redis/connect.ts';
import type { OtherClock } from '../ports/clock.ts';
import { signalling } from '../ports/signals.ts';
import type { Stores } from '../ports/stores.ts';
import type { Telemetry } from '../ports/telemetry.ts';

/** Addresses of the three servers; plain data, since wheel threads get it as a message. */
export interface ClusterConfig {
  mongodb: { uri: string; database: string };
  redis: { url: string; prefix: string };
  kafka: Pick<KafkaOptions, 'brokers' | 'clientId' | 'replicationFactor' | 'ssl' | 'sasl'>;
}

export interface ClusterStores extends Stores {
  /** MongoDB's wall time, for the check of this machine's clock. */
  serverTimeMs(): Promise<number>;
  otherClocks: readonly OtherClock[];
}

/** MongoDB, Redis and Kafka as one bundle. What was opened is closed again when a later one refuses. */
export async function open(config: ClusterConfig, telemetry: Telemetry): Promise<ClusterStores> {
  // The bus connects when it is first used, and refuses bad addresses at once: it comes before what would have to be closed.
  const bus = kafkaBus(config.kafka, telemetry);
  const mongo = await connectMongo(config.mongodb, telemetry);
  try {
    const triggers = await connectRedis(config.redis, telemetry);
    const { jobs, catalog, shards, leases, operations, serverTimeMs } = mongo;
    const stores = {
      jobs,
      catalog,
      shards,
      leases,
      operations,
      serverTimeMs,
      otherClocks: [serverTimeMs, () => triggers.timeMs()],
      triggers,
      signals: triggers.signals,
      bus,
      async close() {
        await bus.close();
        await triggers.close();
        await mongo.close();
      },
    };
    return signalling(stores, triggers.signals);
  } catch (error) {
    await mongo.close();
    throw error;
  }
}
