import { describe, inject } from 'vitest';
import { jobStoreContract } from './job-store.contract.ts';
import { openMongo } from './mongodb-opening.ts';

const servers = inject('servers');

describe.skipIf(servers === null)('on a real server', () => {
  jobStoreContract('MongoDB', () => openMongo(servers!.mongodb, ({ jobs }) => jobs));
});
