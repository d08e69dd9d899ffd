import { type CommandStartedEvent, type Db, MongoClient } from 'mongodb';
import { carillonError } from '../../core/errors.ts';
import type { CatalogStore } from '../../ports/catalog-store.ts';
import type { JobStore } from '../../ports/job-store.ts';
import type { LeaseStore } from '../../ports/lease-store.ts';
import type { OperationStore } from '../../ports/operation-store.ts';
import type { ShardStore } from '../../ports/shard-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { mongoCatalogStore } from './catalog-store.ts';
import { mongoError } from './errors.ts';
import { FINISHED, FINISHED_INDEXES } from './finished-blocks.ts';
import { guardOf } from './guard.ts';
import { JOB_INDEXES, JOBS, mongoJobStore } from './job-store.ts';
import { LEASE_INDEXES, LEASES, mongoLeaseStore } from './lease-store.ts';
import { mongoOperationStore, OPERATION_INDEXES, OPERATIONS } from './operation-store.ts';
import { mongoShardStore, SHARD_INDEXES, SHARDS } from './shard-store.ts';

export interface MongoSettings {
  /** Connection string of a replica set or of a sharded cluster's mongos. */
  uri: string;
  database: string;
  /** A server that does not answer is told to the caller after this time, in ms; default 5,000 (the driver's are 30 s and no end). */
  timeoutMs?: number;
  /** Told of each command as it is sent. */
  onCommand?: (event: CommandStartedEvent) => void;
}

export interface MongoStores {
  jobs: JobStore;
  catalog: CatalogStore;
  shards: ShardStore;
  leases: LeaseStore;
  operations: OperationStore;
  /** Wall time of the primary, UTC ms. */
  serverTimeMs(): Promise<number>;
  close(): Promise<void>;
}

/** First server version with all that is used here is 5.0; 6.0 is the first that is tested. */
const LEAST_WIRE_VERSION = 17;

const INDEXES = [
  { collection: JOBS, indexes: JOB_INDEXES },
  { collection: FINISHED, indexes: FINISHED_INDEXES },
  { collection: SHARDS, indexes: SHARD_INDEXES },
  { collection: LEASES, indexes: LEASE_INDEXES },
  { collection: OPERATIONS, indexes: OPERATION_INDEXES },
];

/**
 * Connects, checks the set-up and creates the indexes that are missing.
 * @throws `setup-refused` for a server without a replica set, one that is too old, or missing rights; `unavailable` where
 *   no primary answers
 */
export async function connectMongo(settings: MongoSettings, telemetry: Telemetry): Promise<MongoStores> {
  const client = clientOf(settings);
  try {
    await client.connect();
    const db = client.db(settings.database);
    const serverTimeMs = async (): Promise<number> => {
      const { localTime } = await db.command({ hello: 1 });
      return (localTime as Date).getTime();
    };
    await refuseUnfit(db);
    for (const { collection, indexes } of INDEXES) await db.collection(collection).createIndexes([...indexes]);
    const guard = guardOf(telemetry);
    return {
      jobs: guard(mongoJobStore(db)),
      catalog: guard(mongoCatalogStore(db)),
      shards: guard(mongoShardStore(db)),
      leases: guard(mongoLeaseStore(db)),
      operations: guard(mongoOperationStore(db)),
      ...guard({ serverTimeMs }),
      close: () => client.close(),
    };
  } catch (error) {
    await client.close();
    throw mongoError(error);
  }
}

function clientOf({ uri, timeoutMs = 5_000, onCommand }: MongoSettings): MongoClient {
  const client = new MongoClient(uri, {
    appName: 'carillon',
    writeConcern: { w: 'majority', wtimeoutMS: 2 * timeoutMs },
    readConcernLevel: 'majority',
    readPreference: 'primary',
    retryWrites: true,
    retryReads: true,
    ignoreUndefined: true,
    maxPoolSize: 32,
    serverSelectionTimeoutMS: timeoutMs,
    connectTimeoutMS: timeoutMs,
    waitQueueTimeoutMS: timeoutMs,
    // A large batch works for a while before the first byte of its answer.
    socketTimeoutMS: 2 * timeoutMs,
    monitorCommands: onCommand !== undefined,
  });
  if (onCommand !== undefined) client.on('commandStarted', onCommand);
  return client;
}

async function refuseUnfit(db: Db): Promise<void> {
  const hello = await db.command({ hello: 1 });
  if (typeof hello['setName'] !== 'string' && hello['msg'] !== 'isdbgrid') {
    throw carillonError(
      'setup-refused',
      'MongoDB runs without a replica set, so nothing it confirms is safe: start mongod with --replSet NAME and run ' +
        'rs.initiate() once (a set of one will do)',
    );
  }
  if (hello['maxWireVersion'] < LEAST_WIRE_VERSION) {
    throw carillonError('setup-refused', 'MongoDB is older than 6.0: use 6.0 or newer');
  }
}
