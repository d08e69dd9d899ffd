import { join } from 'node:path';
import { MongoClient, MongoServerError } from 'mongodb';
import { MONGOD_WHEEL } from './pins.ts';
import { HOST } from './ports.ts';
import { type Member, numbered, type ServerKind } from './server.ts';
import type { MongodbSettings } from './settings.ts';

const REPLICA_SET = 'rs0';

export const mongodb: ServerKind<'mongodb'> = {
  name: 'mongodb',
  stopGraceMs: ({ members }) => (members === 1 ? 20_000 : 5_000),
  version: () => MONGOD_WHEEL.version,
  members: ({ members }) =>
    members === 1 ? [{ name: 'mongodb', ports: [27_171] }] : numbered('mongodb', members, [27_711]),
  command: async ({ dist, data, member }, settings) => ({
    file: join(dist, 'mongod'),
    args: mongodArguments(data, member.ports[0] ?? 0, settings),
    env: { LD_LIBRARY_PATH: join(dist, 'lib') },
  }),
  address: (members, settings) => ({
    uri: `mongodb://${members.map(hostOf).join(',')}/?${settings.replicaSet ? `replicaSet=${REPLICA_SET}` : 'directConnection=true'}`,
  }),
  ready: async (members, settings) => {
    await using client = await connectTo(members[0]!);
    if (!settings.replicaSet) await client.db('admin').command({ ping: 1 });
    else if (members.length === 1) await electPrimary(client, hostOf(members[0]!));
    else await formSet(client, members, settings.electionMs);
  },
  serves: async (member, settings) => {
    await using client = await connectTo(member);
    const hello = await client.db('admin').command({ hello: 1 });
    const serves = hello['isWritablePrimary'] === true || hello['secondary'] === true;
    if (settings.replicaSet && !serves) throw new Error('it is neither primary nor secondary yet');
  },
};

const hostOf = ({ ports: [port = 0] }: Member): string => `${HOST}:${port}`;

async function connectTo(member: Member): Promise<MongoClient> {
  const options = { directConnection: true, serverSelectionTimeoutMS: 1000 };
  return await new MongoClient(`mongodb://${hostOf(member)}/`, options).connect();
}

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

/** Makes one set of all members and waits until one is primary and the others follow. @throws while it is not there yet */
async function formSet(client: MongoClient, members: readonly Member[], electionMs: number): Promise<void> {
  const admin = client.db('admin');
  const hello = await admin.command({ hello: 1 });
  if (hello['setName'] === undefined) {
    const set = members.map((member, _id) => ({ _id, host: hostOf(member) }));
    const config = { _id: REPLICA_SET, members: set, settings: { electionTimeoutMillis: electionMs } };
    await admin.command({ replSetInitiate: config }).catch(unlessAlreadyInitialized);
  }
  const { members: states } = await admin.command({ replSetGetStatus: 1 });
  const told = (states as { stateStr: string }[]).map(({ stateStr }) => stateStr).sort();
  const wanted = ['PRIMARY', ...members.slice(1).map(() => 'SECONDARY')];
  if (told.join() !== wanted.join()) throw new Error(`its members are ${told.join(', ')}`);
}

function unlessAlreadyInitialized(error: unknown): void {
  if (error instanceof MongoServerError && error.codeName === 'AlreadyInitialized') return;
  throw error;
}
