import type { Cluster } from '../core/job.ts';
import type { CalendarDefinition } from '../core/schedule/types.ts';

/** What changes seldom: the installation, logical clusters and exclusion calendars. All writes are conditional. */
export interface CatalogStore {
  /** Stores the installation at its first start, or answers the stored one, whichever was first. */
  installation(first: Installation): Promise<Installation>;
  /** Stores other zone data, where the stored version is still `expected`; answers whether it did. */
  setZoneData(expected: string, version: string, fingerprints: Record<string, string>): Promise<boolean>;
  createCluster(cluster: Cluster): Promise<boolean>;
  cluster(name: string): Promise<Cluster | null>;
  clusters(): Promise<Cluster[]>;
  /** Stores a calendar (a new one with version 1, else where the version is `calendar.version - 1`). */
  putCalendar(calendar: StoredCalendar): Promise<boolean>;
  calendar(name: string): Promise<StoredCalendar | null>;
  calendars(): Promise<StoredCalendar[]>;
  deleteCalendar(name: string, version: number): Promise<boolean>;
}

export interface StoredCalendar {
  name: string;
  version: number;
  definition: CalendarDefinition;
}

/** Fixed at the first start of an installation and never changed, but for the zone data. */
export interface Installation {
  /** Random name, first part of every transactional id. */
  id: string;
  /** Version of the stored data's form; a newer one than the program knows is refused. */
  dataVersion: number;
  slotsPerSet: number;
  lanesPerSlot: number;
  changesPartitions: number;
  zoneDataVersion: string;
  /** Per zone in use a fingerprint of its rules, to tell which zones other data changes. */
  zoneFingerprints: Record<string, string>;
}
