import { openSqlite } from '../adapters/sqlite/stores.ts';
import type { Clock } from '../ports/clock.ts';
import type { Stores } from '../ports/stores.ts';
import type { Telemetry } from '../ports/telemetry.ts';

/** Stores of one more thread of a process that has the data folder already. */
export async function open({ folder }: { folder: string }, telemetry: Telemetry, clock: Clock): Promise<Stores> {
  return openSqlite({ folder, clock, lock: 'held' }, telemetry);
}
