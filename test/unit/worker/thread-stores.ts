import { openSqlite } from '../../../src/adapters/sqlite/stores.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import type { Telemetry } from '../../../src/ports/telemetry.ts';

/** What a wheel thread of the tests opens: the data folder that the test's own thread has taken. */
export async function open(config: unknown, telemetry: Telemetry, clock: Clock): Promise<Stores> {
  const { folder } = config as { folder: string };
  return openSqlite({ folder, clock, lock: 'held' }, telemetry);
}
