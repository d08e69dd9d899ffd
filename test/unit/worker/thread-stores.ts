import { openSqlite } from '../../../src/adapters/sqlite/stores.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import type { Telemetry } from '../../../src/ports/telemetry.ts';

/** What a wheel thread of the tests opens: the data folder that the test's own thread has taken. */
export async function open(config: unknown, telemetry: Telemetry): Promise<Stores> {
  const { folder } = config as { folder: string };
  return openSqlite({ folder, clock: systemClock(), lock: 'held' }, telemetry);
}
