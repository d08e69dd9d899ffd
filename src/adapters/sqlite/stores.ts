import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { carillonError } from '../../core/errors.ts';
import type { Clock } from '../../ports/clock.ts';
import { type Signal, type Signals, signalling } from '../../ports/signals.ts';
import type { Stores } from '../../ports/stores.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { localBus } from '../local/bus.ts';
import { SqliteCatalogStore } from './catalog-store.ts';
import { Changes } from './changes.ts';
import { Database } from './database.ts';
import { lockFolder } from './folder-lock.ts';
import { SqliteGroups } from './groups.ts';
import { SqliteJobStore } from './job-store.ts';
import { SqliteLeaseStore } from './lease-store.ts';
import { SqliteLog } from './log.ts';
import { SqliteOperationStore } from './operation-store.ts';
import { type RetentionOptions, sweepPiece } from './retention.ts';
import { migrate, SESSION_TABLES } from './schema.ts';
import { SqliteShardStore } from './shard-store.ts';
import { SqliteTriggerStore } from './trigger-store.ts';
import { WriteLock } from './write-lock.ts';

const DATA_FILE = 'carillon.db';
const SESSION_FILE = 'sessions.db';
/** What a partition of a topic without a bound of its own holds at most, in bytes of records: 1 GiB. */
const PARTITION_BYTES = 1024 ** 3;
const SWEEP_EVERY_MS = 10_000;

export interface SqliteOptions extends Partial<RetentionOptions> {
  /** Data folder; it is made when it is missing. Holds `carillon.db`, `sessions.db` (each with `-wal`, `-shm`), the lock. */
  folder: string;
  clock: Clock;
  /**
   * `take` (default): this process takes the folder, and is refused when another one has it. `held`: this process has it
   * already and this is one more thread (or part) of it, with a connection of its own.
   */
  lock?: 'take' | 'held';
  /** The turn to write of those that have the folder already (`SqliteStores.writeLock`); absent: an own one. */
  writeLock?: SharedArrayBuffer;
  /** Pause between two sweeps of what is kept no longer, in ms. */
  sweepEveryMs?: number;
}

export interface SqliteStores extends Stores {
  /** Removes what is kept no longer (`retention.ts`), until nothing is left to remove; runs by itself as well. */
  sweep(): Promise<void>;
  /** What other threads of this process are to be given, so that they take turns with this one. */
  readonly writeLock: SharedArrayBuffer;
}

/**
 * All stores over one file. Fails with `setup-refused` when another process has the folder, or when a newer program wrote it.
 * See `database.ts` for what a commit costs and what survives.
 */
export function openSqlite(options: SqliteOptions, telemetry: Telemetry): SqliteStores {
  const { folder, clock, lock = 'take', partitionBytes = PARTITION_BYTES, sweepEveryMs = SWEEP_EVERY_MS } = options;
  const unlock = lock === 'take' ? lockFolder(folder) : (): void => {};
  try {
    const writeLock = new WriteLock(options.writeLock);
    const db = openFile(join(folder, DATA_FILE), (file) => openData(file, folder, lock, writeLock));
    const run = openFile(join(folder, SESSION_FILE), openSessions);
    const changes = new Changes(folder);
    const bus = localBus(new SqliteLog(db, changes, clock), clock, telemetry);
    const sweeper = sweeping(db, clock, telemetry, { partitionBytes });
    if (lock === 'take') sweeper.every(sweepEveryMs);
    let closing: Promise<void> | null = null;
    const signals = signalsBy(changes);
    const stores = {
      bus,
      jobs: new SqliteJobStore(db),
      catalog: new SqliteCatalogStore(db),
      shards: new SqliteShardStore(db),
      leases: new SqliteLeaseStore(db, run),
      operations: new SqliteOperationStore(db, clock),
      triggers: new SqliteTriggerStore(db, clock),
      signals,
      sweep: () => sweeper.run(),
      writeLock: writeLock.buffer,
      close() {
        closing ??= (async () => {
          await sweeper.stop();
          await bus.close();
          run.close();
          db.close();
          unlock();
        })();
        return closing;
      },
    };
    return signalling(stores, signals);
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Signals go the way of all that threads of this process tell each other; the names of topics have no such form. */
function signalsBy(changes: Changes): Signals {
  const name = (signal: Signal): string => `signal:${signal}`;
  return {
    raise: (signal) => changes.tell([name(signal)]),
    watch: (signal, told) => changes.watch([name(signal)], told),
  };
}

/** SQLITE_CORRUPT and SQLITE_NOTADB. */
const BROKEN_FILE = new Set([11, 26]);

function openFile(file: string, open: (file: string) => Database): Database {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  try {
    return open(file);
  } catch (error) {
    if (!BROKEN_FILE.has((error as { errcode?: number }).errcode ?? 0)) throw error;
    const mend = 'restore it from a copy, or name another data folder';
    throw carillonError('setup-refused', `${file} is no whole SQLite file: ${mend}`, {}, error);
  }
}

function openData(file: string, folder: string, lock: 'take' | 'held', writeLock: WriteLock): Database {
  const db = new Database(file, { lock: writeLock });
  try {
    if (lock === 'take') {
      migrate(db, folder);
      SqliteGroups.clear(db);
    }
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function openSessions(file: string): Database {
  const run = new Database(file, { outlives: 'run' });
  run.exec(SESSION_TABLES);
  return run;
}

/** Sweeps in pieces; between two of them the loop turns, so nothing waits for a whole sweep. */
function sweeping(db: Database, clock: Clock, telemetry: Telemetry, options: RetentionOptions) {
  let running: Promise<void> | null = null;
  let stopped = false;
  let cancel = (): void => {};

  async function runAll(): Promise<void> {
    while (!stopped && sweepPiece(db, clock.wallMs(), telemetry, options)) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  function run(): Promise<void> {
    running ??= runAll().finally(() => {
      running = null;
    });
    return running;
  }
  function every(ms: number): void {
    cancel = clock.after(ms, () => {
      run()
        .catch((error: unknown) => telemetry.event('error', 'a sweep of the bus failed', { error: String(error) }))
        .finally(() => {
          if (!stopped) every(ms);
        });
    });
  }
  return {
    run,
    every,
    async stop(): Promise<void> {
      stopped = true;
      cancel();
      await running?.catch(() => {});
    },
  };
}
