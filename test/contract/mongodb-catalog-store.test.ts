import { describe, inject } from 'vitest';
import { catalogStoreContract } from './catalog-store.contract.ts';
import { openMongo } from './mongodb-opening.ts';

const servers = inject('servers');

describe.skipIf(servers === null)('on a real server', () => {
  catalogStoreContract('MongoDB', () => openMongo(servers!.mongodb, ({ catalog }) => catalog));
});
