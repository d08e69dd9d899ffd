import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, inject, test } from 'vitest';
import { resetServers, startServers, stopServers, temporaryFolder } from '../../deploy/local/instance.ts';
import { connectMongo, type MongoSettings } from '../../src/adapters/mongodb/connect.ts';
import { LIMITS } from '../../src/core/limits.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
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

  test.each([LIMITS.clockSkewMs + 150, -LIMITS.clockSkewMs - 150])(
    'refuses a clock that is %i ms off',
    async (offMs) => {
      const wallMs = (): number => Date.now() + offMs;
      const refused = await connecting({ uri: servers!.mongodb, wallMs }).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: 'setup-refused' });
      expect(String(refused)).toMatch(offMs > 0 ? /ms ahead of MongoDB/ : /ms behind MongoDB/);
    },
  );

  test.each([LIMITS.clockSkewMs - 150, 150 - LIMITS.clockSkewMs])('takes a clock that is %i ms off', async (offMs) => {
    const wallMs = (): number => Date.now() + offMs;
    const stores = await connecting({ uri: servers!.mongodb, wallMs });
    expect(Math.abs((await stores.serverTimeMs()) - Date.now())).toBeLessThan(LIMITS.clockSkewMs);
    await stores.close();
    await dropDatabase(servers!.mongodb, database);
  });

  test('a slow round trip is no skew: only what lies outside of it counts', async () => {
    // Each look at the clock is 400 ms after the one before, so half of a round trip is 200 ms.
    let looks = 0;
    const wallMs = (): number => Date.now() + (looks++ % 2 === 0 ? 400 : 800);
    const stores = await connecting({ uri: servers!.mongodb, wallMs });
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
