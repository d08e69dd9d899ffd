import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { describe, inject } from 'vitest';
import { connectRedis, type RedisTriggerStore } from '../../src/adapters/redis/connect.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import type { StoreOpening } from './opening.ts';
import { triggerStoreContract } from './trigger-store.contract.ts';

const servers = inject('servers');

/** Opens the store under a key prefix of its own; its keys go when it is closed. */
async function open(url: string): Promise<StoreOpening<RedisTriggerStore>> {
  const prefix = `test-${randomUUID()}`;
  let store = await connectRedis({ url, prefix }, silentTelemetry);
  return {
    store,
    async reopen(): Promise<RedisTriggerStore> {
      await store.close();
      store = await connectRedis({ url, prefix }, silentTelemetry);
      return store;
    },
    async close(): Promise<void> {
      await store.close();
      const client = new Redis(url);
      const keys = await client.keys(`{carillon:${prefix}:*`);
      if (keys.length > 0) await client.unlink(...keys);
      client.disconnect();
    },
  };
}

describe.skipIf(servers === null)('on a real server', () => {
  triggerStoreContract('Redis', () => open(servers!.redis));
});
