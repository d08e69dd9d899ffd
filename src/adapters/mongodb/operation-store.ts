import type { Db, IndexDescription } from 'mongodb';
import { LIMITS } from '../../core/limits.ts';
import type { Operation, OperationStore } from '../../ports/operation-store.ts';
import { isDuplicateKey } from './errors.ts';

export const OPERATIONS = 'operations';

export const OPERATION_INDEXES: readonly IndexDescription[] = [
  // list: newest first
  { key: { cluster: 1, startedMs: -1, _id: 1 } },
  // sweep
  { key: { state: 1, acceptedMs: 1 } },
];

/** The `_id` is `CLUSTER KEY`, as with jobs. */
type OperationDocument = Omit<Operation, 'key'> & { _id: string };

const operationId = (cluster: string, key: string): string => `${cluster} ${key}`;

function toOperation({ _id, ...rest }: OperationDocument): Operation {
  return { ...rest, key: _id.slice(rest.cluster.length + 1) };
}

/** Every line has a result: the sum of the counts is the number of lines. */
const ALL_COUNTED = {
  $eq: ['$lines', { $add: ['$counts.created', '$counts.updated', '$counts.unchanged', '$counts.failed'] }],
};

export function mongoOperationStore(db: Db): OperationStore {
  const operations = db.collection<OperationDocument>(OPERATIONS);
  const get = async (cluster: string, key: string): Promise<Operation | null> => {
    const found = await operations.findOne({ _id: operationId(cluster, key) });
    return found === null ? null : toOperation(found);
  };

  return {
    get,

    async start(operation): Promise<{ operation: Operation; started: boolean }> {
      const { key, ...rest } = operation;
      try {
        await operations.insertOne({ _id: operationId(operation.cluster, key), ...rest });
        return { operation, started: true };
      } catch (error) {
        if (!isDuplicateKey(error)) throw error;
      }
      const stored = await get(operation.cluster, key);
      // Swept between the two steps: it ended long ago, so the new one starts.
      return stored === null ? this.start(operation) : { operation: stored, started: false };
    },

    async received(cluster, key, lines, hash): Promise<void> {
      const forward = { _id: operationId(cluster, key), state: 'receiving' as const, lines: { $lt: lines } };
      await operations.updateOne(forward, { $set: { lines, hash } });
    },

    async accepted(cluster, key, lines, hash): Promise<void> {
      // The time is the server's: it is compared with other times of this store only.
      await operations.updateOne({ _id: operationId(cluster, key), state: 'receiving' }, [
        { $set: { state: 'accepted', lines, hash: { $literal: hash }, acceptedMs: { $toLong: '$$NOW' } } },
      ]);
    },

    async count({ cluster, key, partition, fromOffset, toOffset, counts, errors }): Promise<boolean> {
      const counted = `counted.${partition}`;
      const seen = fromOffset === -1 ? { [counted]: { $exists: false } } : { [counted]: fromOffset };
      const added = Object.entries(counts).map(([name, n]) => [`counts.${name}`, n]);
      const { matchedCount } = await operations.updateOne(
        { _id: operationId(cluster, key), ...seen },
        {
          $set: { [counted]: toOffset },
          ...(added.length === 0 ? {} : { $inc: Object.fromEntries(added) }),
          ...(errors.length === 0 ? {} : { $push: { errors: { $each: errors, $slice: LIMITS.operationErrors } } }),
        },
      );
      return matchedCount === 1;
    },

    async list(cluster, limit): Promise<Operation[]> {
      const found = await operations.find({ cluster }).sort({ startedMs: -1, _id: 1 }).limit(limit).toArray();
      return found.map(toOperation);
    },

    async sweep(beforeMs, limit): Promise<number> {
      const ended = { state: 'accepted' as const, acceptedMs: { $lt: beforeMs }, $expr: ALL_COUNTED };
      const found = await operations.find(ended).project<{ _id: string }>({ _id: 1 }).limit(limit).toArray();
      if (found.length === 0) return 0;
      const { deletedCount } = await operations.deleteMany({ _id: { $in: found.map(({ _id }) => _id) }, ...ended });
      return deletedCount;
    },
  };
}
