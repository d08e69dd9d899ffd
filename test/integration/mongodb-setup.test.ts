import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, inject, test } from 'vitest';
import { resetServers, startServers, stopServers, temporaryFolder } from '../../deploy/local/instance.ts';
import { connectMongo, type MongoSettings } from '../../src/adapters/mongodb/connect.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { LIMITS } from '../../src/core/limits.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { checkClockSkew } from '../../src/runtime/start-checks.ts';
import { dropDatabase } from '../contract/mongodb-opening.ts';
import { sampleJob } from '../contract/samples.ts';

const servers = inject('servers');
const database = `test-setup-${randomUUID()}`;
const dirs: string[] = [];

afterEach(async () => {
  for (const dir of dirs.splice(0)) await resetServers({ dir });
});

/** A MongoDB of this test alone. */
async function ownMongo(settings: { replicaSet: boolean }): Promise<{ uri: string; dir: string }> {
  const dir = temporaryFolder();
  dirs.push(dir);
  const { mongodb } = await startServers({ dir, only: ['mongodb'], small: true, settings: { mongodb: settings } });
  return { uri: mongodb.uri, dir };
}

const connecting = (settings: Partial<MongoSettings> & { uri: string }) =>
  connectMongo({ database, ...settings }, silentTelemetry);

describe.skipIf(servers === null)('connectMongo', () => {
  test('refuses a server without a replica set and says how to mend it', async () => {
    const { uri } = await ownMongo({ replicaSet: false });
    const refused = await connecting({ uri }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'setup-refused' });
    expect(String(refused)).toContain('--replSet');
  });

  test('tells the time of the server, by which a clock that is off is refused at start', async () => {
    const stores = await connecting({ uri: servers!.mongodb });
    const check = (offMs: number) => checkClockSkew(systemClock(offMs), 'MongoDB', () => stores.serverTimeMs());
    const within = LIMITS.clockSkewMs - 150;
    const beyond = LIMITS.clockSkewMs + 150;
    await check(within);
    await check(-within);
    await expect(check(beyond)).rejects.toThrow(/ms ahead of MongoDB/);
    await expect(check(-beyond)).rejects.toThrow(/ms behind MongoDB/);
    await stores.close();
    await dropDatabase(servers!.mongodb, database);
  });

  test('is unavailable where nobody listens', async () => {
    await expect(connecting({ uri: 'mongodb://127.0.0.1:9/?replicaSet=rs0', timeoutMs: 300 })).rejects.toMatchObject({
      code: 'unavailable',
    });
  });

  test('calls fail as unavailable while the server is away, and pass when it is back; what was confirmed is there', async () => {
    const { uri, dir } = await ownMongo({ replicaSet: true });
    const stores = await connecting({ uri, timeoutMs: 1_000 });
    expect(await stores.jobs.insertMany([sampleJob('kept')])).toEqual([true]);
    await stopServers({ dir });
    await expect(stores.jobs.get('team', 'kept')).rejects.toMatchObject({ code: 'unavailable', retryable: true });
    await expect(stores.jobs.insertMany([sampleJob('lost', { number: 2 })])).rejects.toMatchObject({
      code: 'unavailable',
    });
    await startServers({ dir, only: ['mongodb'], small: true });
    expect(await stores.jobs.get('team', 'kept')).toEqual(sampleJob('kept'));
    await stores.close();
  });

  test('a second job with the number of another is a fault, not a key that exists', async () => {
    const stores = await connecting({ uri: servers!.mongodb });
    await stores.jobs.insertMany([sampleJob('first', { number: 1 })]);
    const second = stores.jobs.insertMany([sampleJob('second', { number: 1 })]);
    await expect(second).rejects.toMatchObject({ code: 'internal' });
    await stores.close();
    await dropDatabase(servers!.mongodb, database);
  });
});
