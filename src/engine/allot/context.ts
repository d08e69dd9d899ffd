import type { Delivery } from '../../core/job.ts';
import type { Installation } from '../../ports/catalog-store.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Stores } from '../../ports/stores.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

/** What allotment reaches the world through, and what it must know of the installation. */
export interface AllotContext {
  stores: Pick<Stores, 'leases' | 'shards' | 'jobs' | 'bus' | 'signals'>;
  clock: Clock;
  telemetry: Telemetry;
  installation: Pick<Installation, 'id' | 'slotsPerSet' | 'lanesPerSlot'>;
  /** Sets of slots that are in use. */
  deliveries: readonly Delivery[];
}
