import { memoryStores } from '../../src/adapters/memory/stores.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import type { Stores } from '../../src/ports/stores.ts';
import { catalogStoreContract } from './catalog-store.contract.ts';
import { jobStoreContract } from './job-store.contract.ts';
import { leaseStoreContract } from './lease-store.contract.ts';
import type { StoreOpening } from './opening.ts';
import { operationStoreContract } from './operation-store.contract.ts';
import { shardStoreContract } from './shard-store.contract.ts';
import { triggerStoreContract } from './trigger-store.contract.ts';

/** Opens empty stores in memory and gives one of them. */
function opener<Name extends keyof Stores>(name: Name): () => Promise<StoreOpening<Stores[Name]>> {
  return async () => {
    const stores = memoryStores(systemClock());
    return { store: stores[name], close: () => stores.close() };
  };
}

jobStoreContract('memory', opener('jobs'));
catalogStoreContract('memory', opener('catalog'));
shardStoreContract('memory', opener('shards'));
leaseStoreContract('memory', opener('leases'));
operationStoreContract('memory', opener('operations'));
triggerStoreContract('memory', opener('triggers'));
