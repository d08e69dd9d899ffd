import { randomUUID } from 'node:crypto';
import { type CommandStartedEvent, type Document, MongoClient } from 'mongodb';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { connectMongo, type MongoStores } from '../../src/adapters/mongodb/connect.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { dropDatabase } from '../contract/mongodb-opening.ts';
import {
  sampleCluster,
  sampleJob,
  sampleLease,
  sampleOperation,
  sampleSession,
  sampleShard,
} from '../contract/samples.ts';

const servers = inject('servers');
const database = `test-plans-${randomUUID()}`;

/** Fields of a command that belong to its transport and not to the question it asks. */
const TRANSPORT = [
  '$db',
  '$clusterTime',
  'lsid',
  'txnNumber',
  'startTransaction',
  'autocommit',
  'readConcern',
  'writeConcern',
  '$readPreference',
];
/** Commands that search: for each there must be an index. Inserts and the handshake do not search. */
const SEARCHING = new Set(['find', 'aggregate', 'update', 'delete', 'findAndModify', 'count', 'distinct']);
const OTHERS = new Set([
  'insert',
  'createIndexes',
  'hello',
  'endSessions',
  'getMore',
  'killCursors',
  'commitTransaction',
  'abortTransaction',
]);

interface Asked {
  method: string;
  command: Document;
}

/** Every method of every store is called once or more; the driver tells which commands came of it. */
async function callEverything(stores: MongoStores, at: (method: string) => void): Promise<void> {
  const { jobs, catalog, shards, leases, operations } = stores;
  const zones = Array.from({ length: 250 }, (_, i) => `Zone/${i}`);
  const replaced = (key: string, version: number) => ({
    job: sampleJob(key, { number: 7, version: version + 1 }),
    expected: { version, offset: 7 },
  });
  const lease = sampleLease(1);
  const count = { cluster: 'team', key: 'op', partition: 1, toOffset: 5, counts: { created: 1 }, errors: [] };
  const calls: Record<string, (() => Promise<unknown>)[]> = {
    'jobs.get': [() => jobs.get('team', 'job-7')],
    'jobs.getMany': [() => jobs.getMany([1, 2, 9_999].map((i) => ({ cluster: 'team', key: `job-${i}` })))],
    'jobs.insertMany': [() => jobs.insertMany([sampleJob('new', { number: 9_000 })])],
    'jobs.insertLines': [() => jobs.insertLines([])],
    // One of two matches, so that the read-back is asked too.
    'jobs.replaceMany': [() => jobs.replaceMany([replaced('job-7', 1), replaced('missing', 1)])],
    'jobs.finish': [
      () =>
        jobs.finish(
          [3, 4].map((shard) => ({ shard, number: 4, version: 1 })),
          5,
        ),
      () =>
        jobs.finish(
          Array.from({ length: 1_000 }, (_, i) => ({ shard: i % 50, number: i, version: 1, oneShotOf: 'team' })),
          6,
        ),
    ],
    'jobs.fold': [() => jobs.fold()],
    'jobs.fail': [() => jobs.fail(3, [{ number: 5, version: 1, reason: 'why' }], 5)],
    'jobs.list': [
      () => jobs.list({ cluster: 'team', limit: 10 }),
      () => jobs.list({ cluster: 'team', limit: 10, afterKey: 'job-10' }),
      () => jobs.list({ cluster: 'team', limit: 10, prefix: 'job-1', afterKey: 'job-10' }),
      () => jobs.list({ cluster: 'team', limit: 10, state: 'paused' }),
      () => jobs.list({ cluster: 'team', limit: 10, state: 'enabled', prefix: 'job-1', afterKey: 'job-10' }),
      () => jobs.list({ cluster: 'team', limit: 10, state: 'paused', prefix: 'job-1', afterKey: 'job-10' }),
    ],
    'jobs.byShard': [() => jobs.byShard(3, 100, 10)],
    'jobs.versions': [() => jobs.versions(3, 100, 10)],
    'jobs.using': [
      () => jobs.using({ zones: ['Zone/1'] }, null, 10),
      () => jobs.using({ zones }, null, 10),
      () => jobs.using({ zones }, { cluster: 'team', key: 'job-100' }, 10),
      () => jobs.using({ calendar: 'c1' }, null, 10),
      () => jobs.using({ moving: true }, null, 10),
      () => jobs.using({ moving: true }, { cluster: 'team', key: 'job-100' }, 10),
      () => jobs.using({ calendar: 'c1' }, { cluster: 'team', key: 'job-100' }, 10),
    ],
    'jobs.counts': [() => jobs.counts('team'), () => jobs.counts()],
    'jobs.sweep': [() => jobs.sweep(2, 500, 10)],
    'catalog.installation': [
      () =>
        catalog.installation({
          ...{ id: 'i', dataVersion: 1, slotsPerSet: 8, lanesPerSlot: 4, changesPartitions: 8 },
          ...{ zoneDataVersion: '2026a', zoneFingerprints: {} },
        }),
    ],
    'catalog.setZoneData': [() => catalog.setZoneData('2026a', '2026b', {})],
    'catalog.createCluster': [() => catalog.createCluster(sampleCluster('team'))],
    'catalog.cluster': [() => catalog.cluster('team')],
    'catalog.clusters': [() => catalog.clusters()],
    'catalog.putCalendar': [
      () => catalog.putCalendar({ name: 'c', version: 1, definition: {} }),
      () => catalog.putCalendar({ name: 'c', version: 2, definition: {} }),
    ],
    'catalog.calendar': [() => catalog.calendar('c')],
    'catalog.calendars': [() => catalog.calendars()],
    'catalog.deleteCalendar': [() => catalog.deleteCalendar('c', 2)],
    'shards.shards': [() => shards.shards()],
    'shards.create': [() => shards.create([sampleShard(5_000)])],
    'shards.takePlaces': [() => shards.takePlaces('exactly-once', 5, 100)],
    'shards.addJobs': [() => shards.addJobs([{ shard: 1, jobs: 1 }])],
    'shards.setState': [() => shards.setState(1, 'open', 'draining')],
    'shards.setLoad': [() => shards.setLoad([{ shard: 1, triggersPerSecond: 1, saturated: false }])],
    'leases.openSession': [() => leases.openSession(sampleSession('w'))],
    'leases.renewSession': [() => leases.renewSession('w', { rates: {}, wheelLagMs: 0, wheels: 1 })],
    'leases.endSession': [() => leases.endSession('w', 7), () => leases.endSession('w', null)],
    'leases.sessions': [() => leases.sessions()],
    'leases.lead': [() => leases.lead('r', 'a', null), () => leases.lead('r', 'b', { term: 9, beat: 9 })],
    'leases.resign': [() => leases.resign('r', 'a')],
    'leases.createSlots': [() => leases.createSlots([{ delivery: 'exactly-once', slot: 1 }])],
    'leases.leases': [() => leases.leases(), () => leases.leases('w')],
    'leases.assign': [() => leases.assign(lease, 'w')],
    'leases.ask': [() => leases.ask({ ...lease, owner: 'w', epoch: 1 }, 'release')],
    'leases.free': [() => leases.free({ ...lease, owner: 'w', epoch: 1 })],
    'operations.start': [() => operations.start(sampleOperation('op')), () => operations.start(sampleOperation('op'))],
    'operations.get': [() => operations.get('team', 'op')],
    'operations.received': [() => operations.received('team', 'op', 1, 'h')],
    'operations.count': [
      () => operations.count({ ...count, fromOffset: -1 }),
      () => operations.count({ ...count, fromOffset: 5, toOffset: 9 }),
    ],
    'operations.accepted': [() => operations.accepted('team', 'op', 2, 'h')],
    'operations.list': [() => operations.list('team', 10)],
    'operations.sweep': [() => operations.sweep(Date.now() + 3_600_000, 10)],
  };
  const methods = Object.entries({ jobs, catalog, shards, leases, operations }).flatMap(([store, of]) =>
    Object.keys(of).map((method) => `${store}.${method}`),
  );
  expect(Object.keys(calls).sort()).toEqual(methods.sort());
  for (const [method, variants] of Object.entries(calls)) {
    at(method);
    for (const call of variants) await call();
  }
}

/** One command that can be explained for each statement of a command: explain takes a single update or delete. */
function statements(command: Document): Document[] {
  const plain = Object.fromEntries(Object.entries(command).filter(([name]) => !TRANSPORT.includes(name)));
  for (const list of ['updates', 'deletes']) {
    if (Array.isArray(plain[list])) return plain[list].map((one: Document) => ({ ...plain, [list]: [one] }));
  }
  return [plain];
}

function stagesOf(plan: unknown): string[] {
  if (Array.isArray(plan)) return plan.flatMap(stagesOf);
  if (typeof plan !== 'object' || plan === null) return [];
  return Object.entries(plan).flatMap(([name, value]) => {
    if (name === 'rejectedPlans' || name === 'command') return [];
    return name === 'stage' && typeof value === 'string' ? [value] : stagesOf(value);
  });
}

async function fill(stores: MongoStores): Promise<void> {
  await stores.jobs.insertMany(
    Array.from({ length: 2_000 }, (_, i) =>
      sampleJob(`job-${i}`, {
        cluster: i % 4 === 0 ? 'other' : 'team',
        number: i,
        state: i % 10 === 0 ? 'paused' : 'enabled',
        schedule: { kind: 'cron', expression: '0 9 * * *', zone: `Zone/${i % 300}` },
        bounds: { calendars: [`c${i % 3}`, `d${i % 5}`] },
        position: { partition: i % 8, offset: i },
        ...(i % 16 === 2 ? { deleted: true } : {}),
      }),
    ),
  );
  await stores.shards.create(Array.from({ length: 100 }, (_, i) => sampleShard(i, { jobs: i })));
  await stores.leases.createSlots(Array.from({ length: 64 }, (_, slot) => ({ delivery: 'at-least-once', slot })));
  for (let i = 0; i < 20; i += 1) await stores.operations.start(sampleOperation(`op-${i}`));
}

describe.skipIf(servers === null)('plans of every query that the MongoDB stores ask', () => {
  const asked: Asked[] = [];
  let client: MongoClient;

  beforeAll(async () => {
    let method = '';
    const onCommand = ({ commandName, command }: CommandStartedEvent): void => {
      if (method === '') return;
      if (SEARCHING.has(commandName)) asked.push({ method, command });
      else if (!OTHERS.has(commandName)) throw new Error(`a command that this test does not know: ${commandName}`);
    };
    const stores = await connectMongo({ uri: servers!.mongodb, database, onCommand }, silentTelemetry);
    await fill(stores);
    await callEverything(stores, (name) => {
      method = name;
    });
    await stores.close();
    client = new MongoClient(servers!.mongodb);
  });
  afterAll(async () => {
    await client.close();
    await dropDatabase(servers!.mongodb, database);
  });

  const explained = async (command: Document): Promise<string[]> =>
    stagesOf(await client.db(database).command({ explain: command, verbosity: 'queryPlanner' }));

  test('the walk sees a collection scan and a sort in memory where there are some', async () => {
    expect(await explained({ find: 'jobs', filter: { payload: 'x' } })).toContain('COLLSCAN');
    expect(await explained({ find: 'jobs', filter: {}, sort: { payload: 1 } })).toContain('SORT');
    expect(await explained({ update: 'jobs', updates: [{ q: { payload: 'x' }, u: { $set: { a: 1 } } }] })).toContain(
      'COLLSCAN',
    );
    const aggregate = { aggregate: 'jobs', pipeline: [{ $match: { payload: 'x' } }, { $count: 'n' }], cursor: {} };
    expect(await explained(aggregate)).toContain('COLLSCAN');
  });

  test('each uses an index, and none sorts in memory', async () => {
    const plans: string[] = [];
    for (const { method, command } of asked) {
      for (const statement of statements(command)) {
        const stages = await explained(statement);
        const indexed = stages.some((stage) => /^(IXSCAN|IDHACK|COUNT_SCAN|DISTINCT_SCAN|EXPRESS_IXSCAN)$/.test(stage));
        plans.push(`${method}: ${stages.join(' < ')}${indexed ? '' : ' (no index)'}`);
      }
    }
    expect(plans.length).toBeGreaterThan(45);
    expect(plans.filter((plan) => /COLLSCAN|SORT(?!_MERGE)|no index/.test(plan))).toEqual([]);
  });

  test('replaceMany asks by key, in the write and in what it reads back', async () => {
    const commands = asked
      .filter(({ method }) => method === 'jobs.replaceMany')
      .map(({ command }) => Object.keys(command)[0]);
    expect(commands).toEqual(['update', 'find']);
  });

  test('counts read the index alone', async () => {
    const counts = asked.filter(({ method }) => method === 'jobs.counts');
    // Of each: all jobs, deleted ones, those of other states than enabled, and those in blocks.
    expect(counts).toHaveLength(8);
    for (const { command } of counts) expect(await explained(statements(command)[0]!)).not.toContain('FETCH');
  });
});
