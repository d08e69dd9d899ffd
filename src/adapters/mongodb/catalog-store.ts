import type { Db } from 'mongodb';
import type { Cluster } from '../../core/job.ts';
import type { CatalogStore, Installation, StoredCalendar } from '../../ports/catalog-store.ts';
import { isDuplicateKey } from './errors.ts';

/** The one document of its collection. Fingerprints are JSON text: names of zones are no field names. */
interface InstallationDocument extends Omit<Installation, 'zoneFingerprints'> {
  _id: 'installation';
  zoneFingerprints: string;
}
type ClusterDocument = Omit<Cluster, 'name'> & { _id: string };
type CalendarDocument = Omit<StoredCalendar, 'name'> & { _id: string };

const toCluster = ({ _id, ...rest }: ClusterDocument): Cluster => ({ name: _id, ...rest });
const toCalendar = ({ _id, ...rest }: CalendarDocument): StoredCalendar => ({ name: _id, ...rest });

export function mongoCatalogStore(db: Db): CatalogStore {
  const installations = db.collection<InstallationDocument>('installation');
  const clusters = db.collection<ClusterDocument>('clusters');
  const calendars = db.collection<CalendarDocument>('calendars');

  return {
    async installation(first): Promise<Installation> {
      await inserted(() =>
        installations.insertOne({
          _id: 'installation',
          ...first,
          zoneFingerprints: JSON.stringify(first.zoneFingerprints),
        }),
      );
      const stored = await installations.findOne({ _id: 'installation' });
      const { _id, zoneFingerprints, ...rest } = stored!;
      return { ...rest, zoneFingerprints: JSON.parse(zoneFingerprints) as Record<string, string> };
    },

    async setZoneData(expected, version, fingerprints): Promise<boolean> {
      const { matchedCount } = await installations.updateOne(
        { _id: 'installation', zoneDataVersion: expected },
        { $set: { zoneDataVersion: version, zoneFingerprints: JSON.stringify(fingerprints) } },
      );
      return matchedCount === 1;
    },

    createCluster: ({ name, ...rest }) => inserted(() => clusters.insertOne({ _id: name, ...rest })),

    async cluster(name): Promise<Cluster | null> {
      const found = await clusters.findOne({ _id: name });
      return found === null ? null : toCluster(found);
    },

    async clusters(): Promise<Cluster[]> {
      return (await clusters.find({}).sort({ _id: 1 }).toArray()).map(toCluster);
    },

    async putCalendar({ name, version, definition }): Promise<boolean> {
      if (version === 1) return inserted(() => calendars.insertOne({ _id: name, version, definition }));
      const { matchedCount } = await calendars.replaceOne({ _id: name, version: version - 1 }, { version, definition });
      return matchedCount === 1;
    },

    async calendar(name): Promise<StoredCalendar | null> {
      const found = await calendars.findOne({ _id: name });
      return found === null ? null : toCalendar(found);
    },

    async calendars(): Promise<StoredCalendar[]> {
      return (await calendars.find({}).sort({ _id: 1 }).toArray()).map(toCalendar);
    },

    async deleteCalendar(name, version): Promise<boolean> {
      return (await calendars.deleteOne({ _id: name, version })).deletedCount === 1;
    },
  };
}

/** Whether an insert went in; false where the `_id` exists. */
async function inserted(insert: () => Promise<unknown>): Promise<boolean> {
  try {
    await insert();
    return true;
  } catch (error) {
    if (isDuplicateKey(error)) return false;
    throw error;
  }
}
