import { resolve } from 'node:path';
import { openSqlite } from '../adapters/sqlite/stores.ts';
import { systemClock } from '../adapters/system/clock.ts';
import { endFormer } from '../engine/allot/former.ts';
import { firstStart } from '../management/first-start.ts';
import type { Stores } from '../ports/stores.ts';
import type { Log } from '../runtime/log.ts';
import { createMetrics } from '../runtime/metrics.ts';
import { siblingModule } from '../runtime/sibling.ts';
import { type Roles, rolesService } from './roles.ts';
import type { SqliteThread } from './sqlite-stores.ts';
import { PROGRAM_VERSION } from './version.ts';

export interface EmbeddedOptions {
  folder: string;
  listen: { host: string; port: number };
  apiKey: string | null;
  wheels: number;
  misfireAfterMs: number;
  /** Makes the wall clock wrong by this many ms; for tests. */
  clockOffsetMs?: number;
  retentionMs: number;
  /** Bound of all kept triggers of a topic, in bytes. */
  retentionBytes: number;
}

/** Slots exist to be moved between workers; one process with one wheel has nothing to move, and one commit per tick. */
const SLOTS = 1;
/** One applier is as fast as the file; a few partitions would only split its commits. */
const CHANGES_PARTITIONS = 1;

export interface Embedded extends Roles {
  readonly stores: Stores;
}

/**
 * API, engine and SQLite in one process. Opening takes the data folder; `start` begins to work, `stop` ends it and gives the
 * folder free (it cannot be started again then).
 *
 * @throws CarillonError `setup-refused`: the folder is in use or of a newer program, the port is taken
 */
export async function openEmbedded(options: EmbeddedOptions, log: Log): Promise<Embedded> {
  const folder = resolve(options.folder);
  const { clockOffsetMs = 0 } = options;
  const clock = systemClock(clockOffsetMs);
  const metrics = createMetrics(log);
  const { telemetry } = metrics;
  const { retentionMs, retentionBytes } = options;
  const stores = openSqlite({ folder, clock }, telemetry);
  const thread: SqliteThread = { folder, writeLock: stores.writeLock };
  try {
    await endFormer(stores.leases);
    const installation = await firstStart(stores, clock, {
      slotsPerSet: SLOTS,
      lanesPerSlot: 1,
      changesPartitions: CHANGES_PARTITIONS,
      deliveries: ['exactly-once'],
      triggerRetention: { retentionMs, retentionBytes },
    });
    const roles = rolesService(
      { stores, clock, telemetry, installation },
      {
        mode: 'embedded',
        roles: ['manager', 'worker', 'api'],
        deliveries: ['exactly-once'],
        version: PROGRAM_VERSION,
        metrics,
        listen: options.listen,
        apiKey: options.apiKey,
        wheels: options.wheels,
        misfireAfterMs: options.misfireAfterMs,
        clockOffsetMs,
        triggerRetention: { retentionMs, retentionBytes },
        threadStores: { module: siblingModule(import.meta.url, 'sqlite-stores'), config: thread },
      },
    );
    return {
      stores,
      start: () => roles.start(),
      async stop() {
        await roles.stop();
        await stores.close();
      },
      get address() {
        return roles.address;
      },
    };
  } catch (error) {
    await stores.close();
    throw error;
  }
}
