import type { Clock } from '../../ports/clock.ts';
import { signalling } from '../../ports/signals.ts';
import type { Stores } from '../../ports/stores.ts';
import { silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import { localSignals } from '../local/signals.ts';
import { memoryBus } from './bus.ts';
import { memoryCatalogStore } from './catalog-store.ts';
import { memoryJobStore } from './job-store.ts';
import { memoryLeaseStore } from './lease-store.ts';
import { memoryOperationStore } from './operation-store.ts';
import { memoryShardStore } from './shard-store.ts';
import { memoryTriggerStore } from './trigger-store.ts';

/** All stores in memory, for tests and simulations: every part keeps the contract of its port, and nothing a restart. */
export function memoryStores(clock: Clock, telemetry: Telemetry = silentTelemetry): Stores {
  const bus = memoryBus(clock, telemetry);
  const triggers = memoryTriggerStore(clock);
  const signals = localSignals();
  const stores = {
    bus,
    jobs: memoryJobStore(),
    catalog: memoryCatalogStore(),
    shards: memoryShardStore(),
    leases: memoryLeaseStore(),
    operations: memoryOperationStore(clock),
    triggers,
    signals,
    async close() {
      await bus.close();
      await triggers.close();
    },
  };
  return signalling(stores, signals);
}
