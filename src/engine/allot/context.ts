import type { Delivery } from '../../core/job.ts';
import type { Bus } from '../../ports/bus.ts';
import type { Installation } from '../../ports/catalog-store.ts';
import type { Clock } from '../../ports/clock.ts';
import type { JobStore } from '../../ports/job-store.ts';
import type { LeaseStore } from '../../ports/lease-store.ts';
import type { ShardStore } from '../../ports/shard-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

/** What allotment reaches the world through. */
export interface AllotStores {
  leases: LeaseStore;
  shards: ShardStore;
  jobs: Pick<JobStore, 'byShard'>;
  bus: Pick<Bus, 'lane'>;
  clock: Clock;
  telemetry: Telemetry;
}

export interface AllotContext extends AllotStores {
  installation: Pick<Installation, 'id' | 'slotsPerSet' | 'lanesPerSlot'>;
  /** Sets of slots that are in use. */
  deliveries: readonly Delivery[];
}
