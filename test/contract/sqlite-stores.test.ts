import type { Stores } from '../../src/ports/stores.ts';
import { catalogStoreContract } from './catalog-store.contract.ts';
import { jobStoreContract } from './job-store.contract.ts';
import { leaseStoreContract } from './lease-store.contract.ts';
import type { StoreOpening } from './opening.ts';
import { operationStoreContract } from './operation-store.contract.ts';
import { shardStoreContract } from './shard-store.contract.ts';
import { dataFolder, openIn } from './sqlite-folder.ts';
import { triggerStoreContract } from './trigger-store.contract.ts';

/** Opens an empty data folder and gives one of its stores. */
function opener<Name extends keyof Stores>(name: Name): () => Promise<StoreOpening<Stores[Name]>> {
  return async () => {
    const { folder, remove } = dataFolder();
    let stores = openIn(folder);
    return {
      store: stores[name],
      async reopen() {
        await stores.close();
        stores = openIn(folder);
        return stores[name];
      },
      async close() {
        await stores.close();
        remove();
      },
    };
  };
}

jobStoreContract('sqlite', opener('jobs'));
catalogStoreContract('sqlite', opener('catalog'));
shardStoreContract('sqlite', opener('shards'));
leaseStoreContract('sqlite', opener('leases'));
operationStoreContract('sqlite', opener('operations'));
triggerStoreContract('sqlite', opener('triggers'));
