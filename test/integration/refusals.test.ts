import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { resetServers, type Servers, startServers, temporaryFolder } from '../../deploy/local/instance.ts';

/** Wrong set-ups, as whoever starts Carillon meets them: the real program on real servers, its exit code and what it says. */
const MAIN = join(import.meta.dirname, '../../src/cli/main.ts');
/** A process that is still there after this time, in ms, did not refuse. */
const PATIENCE_MS = 30_000;
const NOBODY = '127.0.0.1:9';

const servers = inject('servers');
const folder = mkdtempSync(join('.servers', 'refusals-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Ended {
  code: number | null;
  err: string;
}

/** `carillon serve` in a folder of its own, with these settings and no other. */
function serve(flags: readonly string[], environment: Record<string, string> = {}): Promise<Ended> {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('CARILLON_'));
  const env = { ...Object.fromEntries(inherited), ...environment };
  return new Promise((resolve) => {
    const options = { cwd: folder, env, timeout: PATIENCE_MS, killSignal: 'SIGKILL' } as const;
    const child = execFile(process.execPath, [MAIN, 'serve', ...flags], options, (_error, _out, err) => {
      resolve({ code: child.exitCode, err });
    });
  });
}

/** Ended by itself with an error; one sentence on standard error that names what is wrong and the mend, and no stack. */
function expectRefused({ code, err }: Ended, what: RegExp, mend: RegExp): void {
  expect(err).toMatch(what);
  expect(err).toMatch(mend);
  expect(err).toMatch(/^carillon serve: [^\n]+\n$/);
  expect(err).not.toMatch(/\n\s+at |node:internal/);
  expect(code).toBe(2);
}

describe('settings', () => {
  const key = { CARILLON_API_KEY: 'a-long-and-secret-key' };
  const cluster = ['--mode', 'cluster'];
  const mongodb = ['--mongodb-uri', `mongodb://${NOBODY}/?replicaSet=rs0`];
  const redis = ['--redis-url', `redis://${NOBODY}`];
  test.each<[string, readonly string[], Record<string, string>, RegExp, RegExp]>([
    ['an open address without a key', ['--listen-host', '0.0.0.0'], {}, /listenHost is 0\.0\.0\.0/, /set apiKey/],
    ['a blank key', [], { CARILLON_API_KEY: ' '.repeat(20) }, /apiKey is blank/, /set CARILLON_API_KEY to a random/],
    ['an empty key', [], { CARILLON_API_KEY: '' }, /CARILLON_API_KEY/, /must be text that is not empty/],
    ['a short key', [], { CARILLON_API_KEY: 'hush' }, /apiKey is shorter than 16/, /set CARILLON_API_KEY to a random/],
    ['a key as a flag', ['--api-key', 'x'.repeat(20)], {}, /--api-key in the flags is no setting/, /known are/],
    ['an unknown flag', ['--listen-prot', '7171'], {}, /--listen-prot in the flags/, /known are .*--listen-port/],
    ['an unknown variable', [], { CARILLON_PROT: '1' }, /CARILLON_PROT/, /known are .*CARILLON_LISTEN_PORT/],
    ['a value out of range', ['--wheels', '0'], {}, /--wheels is "0"/, /a whole number from 1 to 64 \(threads\)/],
    ['no MongoDB', cluster, key, /mongodbUri is missing/, /set CARILLON_MONGODB_URI or --mongodb-uri/],
    ['no Redis', [...cluster, ...mongodb], key, /redisUrl is missing/, /set CARILLON_REDIS_URL or --redis-url/],
    ['no Kafka', [...cluster, ...mongodb, ...redis], key, /kafkaBrokers is missing/, /set CARILLON_KAFKA_BROKERS/],
    [
      'a broker that is no address',
      [...cluster, ...mongodb, ...redis, '--kafka-brokers', 'a:b:c'],
      key,
      /"a:b:c" is no address of a broker/,
      /host:port in kafkaBrokers/,
    ],
    ['a role in embedded mode', ['--role', 'worker'], {}, /role is worker/, /set mode to cluster/],
    [
      'a settings file that is not there',
      ['--config', 'none.json'],
      {},
      /none\.json cannot be read/,
      /name one that can/,
    ],
  ])('%s is refused', async (_what, flags, environment, what, mend) => {
    expectRefused(await serve(flags, environment), what, mend);
  });
});

describe.skipIf(servers === null)('servers', () => {
  /** A Redis and a MongoDB of this test alone, both set up wrongly. */
  let wrong: Servers<'mongodb' | 'redis'>;
  beforeAll(async () => {
    const settings = { mongodb: { replicaSet: false } };
    wrong = await startServers({ dir: temporaryFolder(), only: ['mongodb', 'redis'], small: true, settings });
    const client = new Redis(wrong.redis.url);
    await client.config('SET', 'maxmemory-policy', 'allkeys-lru');
    client.disconnect();
  });
  afterAll(() => resetServers({ dir: wrong.dir }));

  /** Cluster mode on the servers of this run, but for what is given. */
  function serveOn(given: Partial<Record<'mongodb' | 'redis' | 'kafka', string>>, ...more: string[]): Promise<Ended> {
    const { mongodb = servers!.mongodb, redis = servers!.redis, kafka = servers!.kafka.join(',') } = given;
    const addresses = ['--mongodb-uri', mongodb, '--redis-url', redis, '--kafka-brokers', kafka];
    const names = ['--mongodb-database', 'test-refusals', '--redis-prefix', 'test-refusals'];
    return serve(['--mode', 'cluster', '--listen-port', '0', ...addresses, ...names, ...more]);
  }

  test('Redis that may evict is refused', async () => {
    const ended = await serveOn({ redis: wrong.redis.url });
    expectRefused(ended, /Redis has maxmemory-policy allkeys-lru and may silently drop jobs/, /set it to noeviction/);
  });

  test('MongoDB without a replica set is refused', async () => {
    const ended = await serveOn({ mongodb: wrong.mongodb.uri });
    expectRefused(ended, /MongoDB runs without a replica set/, /--replSet NAME and run rs\.initiate\(\)/);
  });

  test.each([
    [700, 'ahead of'],
    [-700, 'behind'],
  ])('a clock that is %i ms off against MongoDB is refused', async (offMs, direction) => {
    const ended = await serveOn({}, `--clock-offset-ms=${offMs}`);
    expectRefused(ended, new RegExp(`clock is \\d+ ms ${direction} MongoDB's, more than 500 ms`), /synchronise.*NTP/);
  });

  // Each waits out the patience of a client, so they wait side by side.
  test.concurrent.each([
    ['MongoDB', { mongodb: `mongodb://${NOBODY}/?replicaSet=rs0` }],
    ['Redis', { redis: `redis://${NOBODY}` }],
    ['Kafka', { kafka: NOBODY }],
  ])('%s that does not answer ends the start, by name, as what may be tried again', async (name, address) => {
    const { code, err } = await serveOn(address);
    expect(err).toMatch(new RegExp(`^carillon serve: [^\\n]*${name}[^\\n]*\\n$`));
    expect(code).toBe(1);
  });
});
