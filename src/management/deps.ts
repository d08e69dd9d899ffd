import type { Delivery } from '../core/job.ts';
import type { Installation } from '../ports/catalog-store.ts';
import type { Clock } from '../ports/clock.ts';
import type { Stores } from '../ports/stores.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { Changes } from './changes.ts';
import type { TriggerRetention } from './trigger-topics.ts';

/** What the API process is built from. */
export interface ApiDeps {
  stores: Stores;
  clock: Clock;
  telemetry: Telemetry;
  installation: Installation;
  changes: Changes;
  options: ApiOptions;
  /** Random text for names that a request did not give: letters, digits, `-`. */
  newRequestKey: () => string;
}

export interface ApiOptions {
  mode: 'embedded' | 'cluster';
  /** Null: none is wanted, which is allowed on 127.0.0.1 only. */
  apiKey: string | null;
  /** Deliveries that this installation can do; the first is the default of a new logical cluster. */
  deliveries: readonly [Delivery, ...Delivery[]];
  /** Of the trigger topics that are made here; absent: as the bus has it. */
  triggerRetention?: TriggerRetention;
  /** Version of the program, for `/v1/installation` and OpenAPI. */
  version: string;
  /** Prometheus text of this process. */
  metrics?: { text(): Promise<string>; contentType: string };
  /** Further conditions of `/readyz` by name; each throws while it does not hold. */
  readiness?: Readonly<Record<string, () => Promise<void>>>;
  /** Threads that check bulk lines; default: one less than the processors, at least one, at most four. */
  bulkThreads?: number;
}
