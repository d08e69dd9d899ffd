import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openSqlite, type SqliteOptions, type SqliteStores } from '../../src/adapters/sqlite/stores.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { silentTelemetry, type Telemetry } from '../../src/ports/telemetry.ts';

/** A data folder of a test, below the ignored folder of the servers. */
export function dataFolder(): { folder: string; remove(): void } {
  const parent = join(import.meta.dirname, '../../.servers/tmp');
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, 'sqlite-'));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

export function openIn(
  folder: string,
  options: Partial<SqliteOptions> = {},
  telemetry: Telemetry = silentTelemetry,
): SqliteStores {
  return openSqlite({ folder, clock: systemClock(), ...options }, telemetry);
}
