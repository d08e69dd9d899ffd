import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

/** Offsets of one zone: `[UTC second, seconds east of UTC from then on]`, ascending, the first at the table's beginning. */
export type ZoneRows = readonly (readonly [number, number])[];

/** The committed table of `make_zone_table.py`. It shares neither data nor code with the engine. */
export interface ZoneTable {
  maker: string;
  iana: string;
  /** The span that the table covers, UTC seconds. */
  from: number;
  until: number;
  zones: Map<string, ZoneRows>;
}

export function readZoneTable(): ZoneTable {
  const packed = readFileSync(new URL('./zone-offsets.json.gz', import.meta.url));
  const table = JSON.parse(gunzipSync(packed).toString()) as Omit<ZoneTable, 'zones'> & {
    zones: Record<string, ZoneRows | string>;
  };
  const zones = new Map<string, ZoneRows>();
  for (const [name, rows] of Object.entries(table.zones)) {
    zones.set(name, (typeof rows === 'string' ? table.zones[rows] : rows) as ZoneRows);
  }
  return { ...table, zones };
}
