import type { Db, IndexDescription } from 'mongodb';
import type { PlaceBlock, Shard, ShardStore } from '../../ports/shard-store.ts';
import { keptOut } from './errors.ts';

export const SHARDS = 'shards';

export const SHARD_INDEXES: readonly IndexDescription[] = [
  // takePlaces: the first entry of its range is the least-loaded shard.
  { key: { delivery: 1, state: 1, saturated: 1, jobs: 1, _id: 1 } },
];

type ShardDocument = Omit<Shard, 'id'> & { _id: number };

export function mongoShardStore(db: Db): ShardStore {
  const shards = db.collection<ShardDocument>(SHARDS);

  return {
    async shards(): Promise<Shard[]> {
      const found = await shards.find({}).sort({ _id: 1 }).toArray();
      return found.map(({ _id, ...rest }) => ({ id: _id, ...rest }));
    },

    async create(given): Promise<number> {
      if (given.length === 0) return 0;
      const documents = given.map(({ id, ...rest }) => ({ _id: id, ...rest }));
      try {
        return (await shards.insertMany(documents, { ordered: false })).insertedCount;
      } catch (error) {
        return given.length - keptOut(error).length;
      }
    },

    async takePlaces(delivery, wanted, capacity): Promise<PlaceBlock | null> {
      // The same sum gives the count here and in the update, from the document as it was before.
      const count = { $min: [wanted, { $subtract: [capacity, '$jobs'] }] };
      const before = await shards.findOneAndUpdate(
        { delivery, state: 'open', saturated: false, jobs: { $lt: capacity } },
        [{ $set: { jobs: { $add: ['$jobs', count] }, nextNumber: { $add: ['$nextNumber', count] } } }],
        { sort: { jobs: 1, _id: 1 }, returnDocument: 'before' },
      );
      if (before === null) return null;
      const { _id, slot, nextNumber, jobs } = before;
      return { shard: _id, slot, firstNumber: nextNumber, count: Math.min(wanted, capacity - jobs) };
    },

    async addJobs(changes): Promise<void> {
      if (changes.length === 0) return;
      await shards.bulkWrite(
        changes.map(({ shard, jobs }) => ({ updateOne: { filter: { _id: shard }, update: { $inc: { jobs } } } })),
        { ordered: false },
      );
    },

    async setState(shard, from, to): Promise<boolean> {
      const { matchedCount } = await shards.updateOne({ _id: shard, state: from }, { $set: { state: to } });
      return matchedCount === 1;
    },

    async setLoad(loads): Promise<void> {
      if (loads.length === 0) return;
      await shards.bulkWrite(
        loads.map(({ shard, ...load }) => ({ updateOne: { filter: { _id: shard }, update: { $set: load } } })),
        { ordered: false },
      );
    },
  };
}
