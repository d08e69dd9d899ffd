import { describe, inject } from 'vitest';
import { openMongo } from './mongodb-opening.ts';
import { operationStoreContract } from './operation-store.contract.ts';

const servers = inject('servers');

describe.skipIf(servers === null)('on a real server', () => {
  operationStoreContract('MongoDB', () => openMongo(servers!.mongodb, ({ operations }) => operations));
});
