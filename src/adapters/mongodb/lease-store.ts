import type { Db, IndexDescription } from 'mongodb';
import type { Delivery } from '../../core/job.ts';
import type { Leadership, Lease, LeaseStore, Session } from '../../ports/lease-store.ts';
import { isDuplicateKey, keptOut } from './errors.ts';

export const LEASES = 'leases';

export const LEASE_INDEXES: readonly IndexDescription[] = [
  // leases of one owner
  { key: { owner: 1, _id: 1 } },
];

/** A session that ended is removed: a renewal then finds nothing, and its name never comes again. */
type SessionDocument = Omit<Session, 'incarnation'> & { _id: string };
/** One for each role. Nobody leads: the holder is null. */
type LeaderDocument = { _id: string; holder: string | null; term: number; beat: number };
type LeaseDocument = Lease & { _id: string };

const leaseId = (lease: { delivery: Delivery; slot: number }): string => `${lease.delivery}/${lease.slot}`;

export function mongoLeaseStore(db: Db): LeaseStore {
  return { ...sessionsOf(db), ...leadershipOf(db), ...leasesOf(db) };
}

function sessionsOf(db: Db): Pick<LeaseStore, 'openSession' | 'renewSession' | 'endSession' | 'sessions'> {
  const sessions = db.collection<SessionDocument>('sessions');
  return {
    async openSession({ incarnation, ...rest }): Promise<void> {
      await sessions.insertOne({ _id: incarnation, ...rest });
    },

    async renewSession(incarnation, report): Promise<boolean> {
      const { rates, wheelLagMs, wheels } = report;
      const { matchedCount } = await sessions.updateOne(
        { _id: incarnation },
        { $set: { rates, wheelLagMs, wheels }, $inc: { beat: 1 } },
      );
      return matchedCount === 1;
    },

    async endSession(incarnation, seenBeat): Promise<boolean> {
      const seen = seenBeat === null ? {} : { beat: seenBeat };
      return (await sessions.deleteOne({ _id: incarnation, ...seen })).deletedCount === 1;
    },

    async sessions(): Promise<Session[]> {
      const found = await sessions.find({}).sort({ _id: 1 }).toArray();
      return found.map(({ _id, ...rest }) => ({ incarnation: _id, ...rest }));
    },
  };
}

function leadershipOf(db: Db): Pick<LeaseStore, 'lead' | 'resign'> {
  const leaders = db.collection<LeaderDocument>('leaders');
  return {
    async lead(role, incarnation, seen): Promise<Leadership> {
      const asker = { $literal: incarnation };
      const own = { $eq: ['$holder', asker] };
      const asSeen = seen === null ? [] : [{ $and: [{ $eq: ['$term', seen.term] }, { $eq: ['$beat', seen.beat] }] }];
      const mine = { $or: [own, { $eq: ['$holder', null] }, ...asSeen] };
      // One command for holder and onlooker; for the latter it changes nothing, which costs no entry of the oplog.
      const lead = () =>
        leaders.findOneAndUpdate(
          { _id: role },
          [
            {
              $set: {
                holder: { $cond: [mine, asker, '$holder'] },
                term: { $cond: [{ $and: [mine, { $not: own }] }, { $add: ['$term', 1] }, '$term'] },
                beat: { $cond: [mine, { $add: ['$beat', 1] }, '$beat'] },
              },
            },
          ],
          { returnDocument: 'after' },
        );
      let now = await lead();
      if (now === null) {
        await leaders.insertOne({ _id: role, holder: null, term: 0, beat: 0 }).catch(unlessThere);
        now = await lead();
      }
      const { holder, term, beat } = now ?? { holder: null, term: 0, beat: 0 };
      return { holder: holder ?? '', term, beat, mine: holder === incarnation };
    },

    async resign(role, incarnation): Promise<void> {
      await leaders.updateOne({ _id: role, holder: incarnation }, { $set: { holder: null } });
    },
  };
}

function unlessThere(error: unknown): void {
  if (!isDuplicateKey(error)) throw error;
}

function leasesOf(db: Db): Pick<LeaseStore, 'createSlots' | 'leases' | 'assign' | 'ask' | 'free'> {
  const leases = db.collection<LeaseDocument>(LEASES);
  const change = async (seen: Lease, update: Record<string, object>): Promise<boolean> => {
    const { owner, epoch } = seen;
    return (await leases.updateOne({ _id: leaseId(seen), owner, epoch }, update)).matchedCount === 1;
  };
  return {
    async createSlots(slots): Promise<void> {
      if (slots.length === 0) return;
      const free = { owner: null, epoch: 0, wanted: 'keep' as const };
      const documents = slots.map((slot) => ({ _id: leaseId(slot), ...slot, ...free }));
      try {
        await leases.insertMany(documents, { ordered: false });
      } catch (error) {
        keptOut(error);
      }
    },

    async leases(owner): Promise<Lease[]> {
      const found = await leases
        .find(owner === undefined ? {} : { owner })
        .sort({ _id: 1 })
        .toArray();
      return found.map(({ _id, ...lease }) => lease);
    },

    assign: (lease, owner) =>
      lease.owner === null ? change(lease, { $set: { owner, wanted: 'keep' }, $inc: { epoch: 1 } }) : nothing(),
    ask: (lease, wanted) => (lease.owner === null ? nothing() : change(lease, { $set: { wanted } })),
    free: (lease) => (lease.owner === null ? nothing() : change(lease, { $set: { owner: null, wanted: 'keep' } })),
  };
}

/** A lease that was seen in another state than the step needs cannot stand as seen. */
async function nothing(): Promise<boolean> {
  return false;
}
