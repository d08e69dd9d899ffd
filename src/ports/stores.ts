import type { Bus } from './bus.ts';
import type { CatalogStore } from './catalog-store.ts';
import type { JobStore } from './job-store.ts';
import type { LeaseStore } from './lease-store.ts';
import type { OperationStore } from './operation-store.ts';
import type { ShardStore } from './shard-store.ts';
import type { Signals } from './signals.ts';
import type { TriggerStore } from './trigger-store.ts';

/** Everything that a process keeps outside itself, as one bundle: of one file, of three servers, or of memory. */
export interface Stores {
  bus: Bus;
  jobs: JobStore;
  catalog: CatalogStore;
  shards: ShardStore;
  leases: LeaseStore;
  operations: OperationStore;
  triggers: TriggerStore;
  signals: Signals;
  /** Closes all of them, in the order that leaves nothing on the way. */
  close(): Promise<void>;
}
