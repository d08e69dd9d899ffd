import { describe, inject } from 'vitest';
import { openMongo } from './mongodb-opening.ts';
import { shardStoreContract } from './shard-store.contract.ts';

const servers = inject('servers');

describe.skipIf(servers === null)('on a real server', () => {
  shardStoreContract('MongoDB', () => openMongo(servers!.mongodb, ({ shards }) => shards));
});
