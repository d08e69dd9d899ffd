import type { Cluster } from '../../core/job.ts';
import type { CatalogStore, Installation, StoredCalendar } from '../../ports/catalog-store.ts';
import type { Database } from './database.ts';

interface Doc {
  doc: string;
}

const parsed = <T>(row: Doc | undefined): T | null => (row === undefined ? null : (JSON.parse(row.doc) as T));

export class SqliteCatalogStore implements CatalogStore {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  #installed(): Installation | null {
    return parsed<Installation>(this.#db.get<Doc>('SELECT doc FROM installation'));
  }

  async installation(first: Installation): Promise<Installation> {
    const sql = 'INSERT OR IGNORE INTO installation (one, zone_data, doc) VALUES (1, ?, ?)';
    this.#db.run(sql, first.zoneDataVersion, JSON.stringify(first));
    return this.#installed()!;
  }

  async setZoneData(expected: string, version: string, fingerprints: Record<string, string>): Promise<boolean> {
    return this.#db.write(() => {
      const now = this.#installed();
      if (now === null) return false;
      const next = { ...now, zoneDataVersion: version, zoneFingerprints: fingerprints };
      const sql = 'UPDATE installation SET zone_data = ?, doc = ? WHERE zone_data = ?';
      return this.#db.run(sql, version, JSON.stringify(next), expected) === 1;
    });
  }

  async createCluster(cluster: Cluster): Promise<boolean> {
    const sql = 'INSERT OR IGNORE INTO clusters (name, doc) VALUES (?, ?)';
    return this.#db.run(sql, cluster.name, JSON.stringify(cluster)) === 1;
  }

  async cluster(name: string): Promise<Cluster | null> {
    return parsed<Cluster>(this.#db.get<Doc>('SELECT doc FROM clusters WHERE name = ?', name));
  }

  async clusters(): Promise<Cluster[]> {
    return this.#db.all<Doc>('SELECT doc FROM clusters ORDER BY name').map((row) => parsed<Cluster>(row)!);
  }

  async putCalendar({ name, version, definition }: StoredCalendar): Promise<boolean> {
    const doc = JSON.stringify({ name, version, definition });
    if (version === 1) {
      const sql = 'INSERT OR IGNORE INTO calendars (name, version, doc) VALUES (?, 1, ?)';
      return this.#db.run(sql, name, doc) === 1;
    }
    const sql = 'UPDATE calendars SET version = ?, doc = ? WHERE name = ? AND version = ?';
    return this.#db.run(sql, version, doc, name, version - 1) === 1;
  }

  async calendar(name: string): Promise<StoredCalendar | null> {
    return parsed<StoredCalendar>(this.#db.get<Doc>('SELECT doc FROM calendars WHERE name = ?', name));
  }

  async calendars(): Promise<StoredCalendar[]> {
    return this.#db.all<Doc>('SELECT doc FROM calendars ORDER BY name').map((row) => parsed<StoredCalendar>(row)!);
  }

  async deleteCalendar(name: string, version: number): Promise<boolean> {
    return this.#db.run('DELETE FROM calendars WHERE name = ? AND version = ?', name, version) === 1;
  }
}
