import { describe, inject } from 'vitest';
import { leaseStoreContract } from './lease-store.contract.ts';
import { openMongo } from './mongodb-opening.ts';

const servers = inject('servers');

describe.skipIf(servers === null)('on a real server', () => {
  leaseStoreContract('MongoDB', () => openMongo(servers!.mongodb, ({ leases }) => leases));
});
