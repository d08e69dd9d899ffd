import { join } from 'node:path';
import { MongoClient, MongoServerError } from 'mongodb';
import { MONGOD_WHEEL } from './pins.ts';
import { HOST } from './ports.ts';
import type { ServerKind } from './server.ts';
import type { MongodbSettings } from './settings.ts';

const REPLICA_SET = 'rs0';

export const mongodb: ServerKind<'mongodb'> = {
  name: 'mongodb',
  preferredPorts: [27_171],
  stopGraceMs: 20_000,
  version: () => MONGOD_WHEEL.version,
  command: async ({ dist, data, ports: [port = 0] }, settings) => ({
    file: join(dist, 'mongod'),
    args: mongodArguments(data, port, settings),
    env: { LD_LIBRARY_PATH: join(dist, 'lib') },
  }),
  address: ([port = 0], settings) => ({
    uri: `mongodb://${HOST}:${port}/?${settings.replicaSet ? `replicaSet=${REPLICA_SET}` : 'directConnection=true'}`,
  }),
  ready: async ([port = 0], settings) => {
    const options = { directConnection: true, serverSelectionTimeoutMS: 1000 };
    await using client = new MongoClient(`mongodb://${HOST}:${port}/`, options);
    await client.connect();
    if (settings.replicaSet) await electPrimary(client, `${HOST}:${port}`);
    else await client.db('admin').command({ ping: 1 });
  },
};

/** Every path lies below `data`; without --nounixsocket mongod would put a socket into /tmp. */
export function mongodArguments(data: string, port: number, settings: MongodbSettings): string[] {
  return [
    ...['--bind_ip', HOST, '--port', String(port), '--nounixsocket'],
    ...['--dbpath', data, '--quiet'],
    ...['--wiredTigerCacheSizeGB', String(settings.cacheGB)],
    ...(settings.replicaSet ? ['--replSet', REPLICA_SET, '--oplogSize', String(settings.oplogMB)] : []),
    // A checkpoint of the usual 60 s writes all that a bulk has changed in one burst, which stalls everything on two cores
    // (m: triggers 200 to 400 ms late, once a minute); one each 5 s writes little.
    ...['--syncdelay', '5'],
    // Diagnostic files are written every second and read by nobody here.
    ...['--setParameter', 'diagnosticDataCollectionEnabled=false'],
    // A primary told to stop waits 15 s for its clients to find another one; a set of one has no other.
    ...['--setParameter', 'shutdownTimeoutMillisForSignaledShutdown=100'],
  ];
}

/** Brings the set of one to a primary that a majority has written to. @throws while it is not there yet */
async function electPrimary(client: MongoClient, host: string): Promise<void> {
  const admin = client.db('admin');
  const stored = await client
    .db('local')
    .collection<{ version: number; members: { host: string }[] }>('system.replset')
    .findOne({}, { projection: { _id: 0 }, readPreference: 'secondaryPreferred' });
  const members = [{ _id: 0, host }];
  if (!stored) {
    await admin.command({ replSetInitiate: { _id: REPLICA_SET, members } }).catch(unlessAlreadyInitialized);
  } else if (stored.members[0]?.host !== host) {
    // The data were made on another port: the set knows itself by the old one and would wait for it for ever.
    const config = { ...stored, _id: REPLICA_SET, version: stored.version + 1, members };
    await admin.command({ replSetReconfig: config, force: true });
  }
  const hello = await admin.command({ hello: 1 });
  if (hello['isWritablePrimary'] !== true) throw new Error('no primary yet');
  // The least write that a majority can acknowledge: a note in the oplog, in no collection.
  await admin.command({ appendOplogNote: 1, data: { ready: true }, writeConcern: { w: 'majority', wtimeout: 5000 } });
}

function unlessAlreadyInitialized(error: unknown): void {
  if (error instanceof MongoServerError && error.codeName === 'AlreadyInitialized') return;
  throw error;
}
