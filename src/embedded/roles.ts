import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { startManager } from '../../shard-manager/manager.ts';
import { startWorker } from '../../trigger-worker/worker.ts';
import type { Delivery } from '../core/job.ts';
import { applierService } from '../management/applier-process.ts';
import { Changes } from '../management/changes.ts';
import { adoptZoneData } from '../management/first-start.ts';
import { apiServer } from '../management/server.ts';
import type { TriggerRetention } from '../management/trigger-topics.ts';
import type { Installation } from '../ports/catalog-store.ts';
import type { Clock } from '../ports/clock.ts';
import type { Stores } from '../ports/stores.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { inOrder, type Service, service } from '../runtime/service.ts';

export type Role = 'api' | 'manager' | 'worker';

export interface RolesDeps {
  stores: Stores;
  clock: Clock;
  telemetry: Telemetry;
  installation: Installation;
}

export interface RolesOptions {
  mode: 'embedded' | 'cluster';
  roles: readonly Role[];
  /** Deliveries that this installation can do; the first is the default of a new logical cluster. */
  deliveries: readonly [Delivery, ...Delivery[]];
  listen: { host: string; port: number };
  apiKey: string | null;
  version: string;
  metrics: { text(): Promise<string>; contentType: string };
  wheels: number;
  misfireAfterMs: number;
  /** What the wall clock of `deps` is off by, in ms, for the clocks of the threads. */
  clockOffsetMs: number;
  /** How long a trigger topic that is made here keeps its triggers. */
  triggerRetention: TriggerRetention;
  /** How a wheel thread opens stores of its own: a module that exports `open(config)`. */
  threadStores: { module: string; config: unknown };
}

/** The roles of one process, over whatever stores: the same in both modes. `address` stands once the API listens. */
export interface Roles extends Service {
  readonly address: { host: string; port: number } | null;
}

export function rolesService(deps: RolesDeps, options: RolesOptions): Roles {
  const { telemetry } = deps;
  const place = { host: hostname(), pid: process.pid };
  const services: Service[] = [];
  if (options.roles.includes('manager')) {
    services.push(startManager({ ...deps, deliveries: options.deliveries }, place));
  }
  if (options.roles.includes('worker')) {
    const { wheels, misfireAfterMs, clockOffsetMs, threadStores } = options;
    services.push(startWorker(deps, { ...place, wheels, misfireAfterMs, clockOffsetMs, threadStores }));
  }
  let api: ReturnType<typeof apiServer> | null = null;
  if (options.roles.includes('api')) {
    const { changesPartitions } = deps.installation;
    const changes = new Changes({
      bus: deps.stores.bus,
      clock: deps.clock,
      telemetry,
      changesPartitions,
      incarnation: randomUUID(),
    });
    api = apiServer({ ...deps, changes, options }, options.listen);
    services.push(changes, applierService({ ...deps, changes }), zoneData({ ...deps, changes }), api);
  }
  const all = inOrder('roles', telemetry, services);
  return {
    start: () => all.start(),
    stop: () => all.stop(),
    get address() {
      return api?.address ?? null;
    },
  };
}

/** Jobs whose zones have other rules than at the last start are timed anew, beside everything else. */
function zoneData(deps: RolesDeps & { changes: Changes }): Service {
  return service('zone-data', deps.telemetry, async () => {
    const running = adoptZoneData(deps, deps.installation).then(
      () => {},
      (error: unknown) => deps.telemetry.event('error', 'zone data were not adopted', { error: String(error) }),
    );
    return () => running;
  });
}
