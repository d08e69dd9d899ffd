import { randomUUID } from 'node:crypto';
import { MongoClient } from 'mongodb';
import { connectMongo, type MongoStores } from '../../src/adapters/mongodb/connect.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import type { StoreOpening } from './opening.ts';

/** Opens one of the stores on a database of its own, which goes when it is closed. */
export async function openMongo<Store>(
  uri: string,
  pick: (stores: MongoStores) => Store,
): Promise<StoreOpening<Store>> {
  const database = `test-${randomUUID()}`;
  let stores = await connectMongo({ uri, database }, silentTelemetry);
  return {
    store: pick(stores),
    async reopen(): Promise<Store> {
      await stores.close();
      stores = await connectMongo({ uri, database }, silentTelemetry);
      return pick(stores);
    },
    async close(): Promise<void> {
      await stores.close();
      await dropDatabase(uri, database);
    },
  };
}

export async function dropDatabase(uri: string, database: string): Promise<void> {
  await using client = new MongoClient(uri);
  await client.db(database).dropDatabase();
}
