import { openSqlite } from '../adapters/sqlite/stores.ts';
import type { Clock } from '../ports/clock.ts';
import type { Stores } from '../ports/stores.ts';
import type { Telemetry } from '../ports/telemetry.ts';

/** What a thread is given; it is sent as a message. */
export interface SqliteThread {
  folder: string;
  writeLock: SharedArrayBuffer;
}

/** Stores of one more thread of a process that has the data folder already. */
export async function open(thread: SqliteThread, telemetry: Telemetry, clock: Clock): Promise<Stores> {
  return openSqlite({ ...thread, clock, lock: 'held' }, telemetry);
}
