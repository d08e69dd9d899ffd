import type { Cluster } from '../../core/job.ts';
import type { CatalogStore, Installation, StoredCalendar } from '../../ports/catalog-store.ts';

export function memoryCatalogStore(): CatalogStore {
  let installed: Installation | null = null;
  const clusters = new Map<string, Cluster>();
  const calendars = new Map<string, StoredCalendar>();
  return {
    async installation(first) {
      installed ??= structuredClone(first);
      return structuredClone(installed);
    },
    async setZoneData(expected, version, fingerprints) {
      if (installed?.zoneDataVersion !== expected) return false;
      installed = { ...installed, zoneDataVersion: version, zoneFingerprints: { ...fingerprints } };
      return true;
    },
    async createCluster(cluster) {
      if (clusters.has(cluster.name)) return false;
      clusters.set(cluster.name, structuredClone(cluster));
      return true;
    },
    cluster: async (name) => structuredClone(clusters.get(name) ?? null),
    clusters: async () => structuredClone([...clusters.values()]),
    async putCalendar(calendar) {
      if ((calendars.get(calendar.name)?.version ?? 0) !== calendar.version - 1) return false;
      calendars.set(calendar.name, structuredClone(calendar));
      return true;
    },
    calendar: async (name) => structuredClone(calendars.get(name) ?? null),
    calendars: async () => structuredClone([...calendars.values()]),
    deleteCalendar: async (name, version) => calendars.get(name)?.version === version && calendars.delete(name),
  };
}
