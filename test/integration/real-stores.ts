import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { inject } from 'vitest';
import { kafkaBus } from '../../src/adapters/kafka/bus.ts';
import { connectMongo } from '../../src/adapters/mongodb/connect.ts';
import { connectRedis } from '../../src/adapters/redis/connect.ts';
import { openSqlite } from '../../src/adapters/sqlite/stores.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { signalling } from '../../src/ports/signals.ts';
import type { Stores } from '../../src/ports/stores.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { dropDatabase } from '../contract/mongodb-opening.ts';
import { ownTopics } from './own-topics.ts';

export const servers = inject('servers');

/** All stores of cluster mode on the servers of this run, with names of their own. */
export async function openCluster(): Promise<Stores> {
  const name = `api-${randomUUID()}`;
  const { mongodb: uri, redis: url, kafka: brokers } = servers!;
  const mongo = await connectMongo({ uri, database: name }, silentTelemetry);
  const triggers = await connectRedis({ url, prefix: name }, silentTelemetry);
  const bus = ownTopics(kafkaBus({ brokers, clientId: name }, silentTelemetry), name);
  const stores = {
    bus,
    jobs: mongo.jobs,
    catalog: mongo.catalog,
    shards: mongo.shards,
    leases: mongo.leases,
    operations: mongo.operations,
    triggers,
    signals: triggers.signals,
    async close() {
      await bus.close();
      await triggers.close();
      await mongo.close();
      await dropDatabase(uri, name);
      const client = new Redis(url);
      const keys = await client.keys(`{carillon:${name}:*`);
      if (keys.length > 0) await client.unlink(...keys);
      client.disconnect();
    },
  };
  return signalling(stores, triggers.signals);
}

/** All stores of embedded mode in a folder of their own below `.servers/`. */
export function openEmbedded(): Stores {
  const folder = mkdtempSync(join('.servers', 'api-'));
  const stores = openSqlite({ folder, clock: systemClock() }, silentTelemetry);
  return {
    ...stores,
    async close() {
      await stores.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
