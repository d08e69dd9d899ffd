import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { isLoopback, loadConfig, printableConfig, withoutPassword } from '../../../src/runtime/config.ts';
import { environmentName, flagName, SETTING_NAMES, setting } from '../../../src/runtime/settings.ts';

const folder = mkdtempSync(join(tmpdir(), 'carillon-config-'));
afterAll(() => rmSync(folder, { recursive: true }));

const load = (flags: string[] = [], environment: Record<string, string> = {}) => loadConfig({ flags, environment });
const file = (content: unknown): string => {
  const path = join(folder, `${Math.random()}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
};
const CLUSTER = {
  CARILLON_MODE: 'cluster',
  CARILLON_MONGODB_URI: 'mongodb://carillon:hush@127.0.0.1:27017/?replicaSet=rs0',
  CARILLON_REDIS_URL: 'redis://:hush@127.0.0.1:6379',
  CARILLON_KAFKA_BROKERS: '127.0.0.1:9092, 127.0.0.1:9093',
};

describe('settings: the table', () => {
  it('has a reason for every setting, and each default is a value that may be given', () => {
    for (const name of SETTING_NAMES) {
      const { reason, default: value, secret } = setting(name);
      expect(reason.length, name).toBeGreaterThan(20);
      if (secret !== undefined) expect(value, name).toBeNull();
      if (value === null || secret !== undefined) continue;
      expect(load([`--${flagName(name)}`, String(value)])[name], name).toEqual(value);
    }
  });

  it('has one spelling per place', () => {
    expect(environmentName('listenPort')).toBe('CARILLON_LISTEN_PORT');
    expect(flagName('listenPort')).toBe('listen-port');
    expect(flagName('apiKey')).toBeNull();
  });
});

describe('settings: where they come from', () => {
  it('without anything: embedded on this machine only', () => {
    expect(load()).toMatchObject({
      mode: 'embedded',
      role: 'all',
      listenHost: '127.0.0.1',
      listenPort: 7171,
      dataDir: 'data',
    });
  });

  it('flags win over the environment, and that over the file', () => {
    const path = file({ listenPort: 1, adminPort: 1, wheels: 3 });
    const environment = { CARILLON_LISTEN_PORT: '2', CARILLON_ADMIN_PORT: '2', CARILLON_CONFIG: path };
    const { listenPort, adminPort, wheels } = load(['--listen-port=3'], environment);
    expect({ listenPort, adminPort, wheels }).toEqual({ listenPort: 3, adminPort: 2, wheels: 3 });
  });

  it('takes lists by comma or as JSON', () => {
    expect(load([], CLUSTER).kafkaBrokers).toEqual(['127.0.0.1:9092', '127.0.0.1:9093']);
    expect(load(['--config', file({ kafkaBrokers: ['a:1', 'b:2'] })]).kafkaBrokers).toEqual(['a:1', 'b:2']);
  });

  it('leaves alone what Kubernetes sets for a Service called carillon, and what the test suite sets', () => {
    const links = {
      CARILLON_PORT: 'tcp://10.0.0.1:7171',
      CARILLON_ADMIN_PORT: 'tcp://10.0.0.2:9090',
      CARILLON_PORT_7171_TCP: 'tcp://10.0.0.1:7171',
      CARILLON_PORT_7171_TCP_ADDR: '10.0.0.1',
      CARILLON_SERVICE_HOST: '10.0.0.1',
      CARILLON_API_SERVICE_PORT_HTTP: '7171',
      CARILLON_TEST_SERVERS: 'none',
      OTHER: 'x',
    };
    expect(load([], links)).toEqual(load());
  });
});

describe('settings: what is refused, by name and with the mend', () => {
  const refusals: [string, () => unknown, RegExp][] = [
    [
      'unknown in the file',
      () => load(['--config', file({ listenPrt: 1 })]),
      /listenPrt in .*\.json is no setting; known are .*listenPort/,
    ],
    [
      'unknown in the environment',
      () => load([], { CARILLON_LISTN_PORT: '1' }),
      /CARILLON_LISTN_PORT in the environment is no setting; known are .*CARILLON_LISTEN_PORT/,
    ],
    [
      'unknown flag',
      () => load(['--listn-port', '1']),
      /--listn-port in the flags is no setting; known are .*--listen-port/,
    ],
    ['secret as a flag', () => load(['--api-key', 'x']), /--api-key in the flags is no setting/],
    ['flag without a value', () => load(['--mode']), /--mode needs a value/],
    ['a word that is no flag', () => load(['embedded']), /"embedded" is no flag/],
    [
      'a number that is none',
      () => load(['--listen-port', '71x']),
      /--listen-port is "71x", but must be a whole number from 0 to 65535/,
    ],
    [
      'an empty number',
      () => load([], { CARILLON_WHEELS: '' }),
      /CARILLON_WHEELS is "", but must be a whole number from 1 to 64 \(threads\)/,
    ],
    ['a number out of range', () => load(['--wheels', '65']), /must be a whole number from 1 to 64/],
    [
      'a fraction in the file',
      () => load(['--config', file({ wheels: 1.5 })]),
      /wheels in .* is 1\.5, but must be a whole number/,
    ],
    [
      'another type in the file',
      () => load(['--config', file({ dataDir: 7 })]),
      /dataDir in .* is 7, but must be text/,
    ],
    [
      'a choice that is none',
      () => load(['--mode', 'clustre']),
      /--mode is "clustre", but must be one of embedded, cluster/,
    ],
    [
      'an empty item',
      () => load([], { ...CLUSTER, CARILLON_KAFKA_BROKERS: 'a:1,,b:2' }),
      /CARILLON_KAFKA_BROKERS .* must be a list/,
    ],
    [
      'no JSON',
      () => load(['--config', file('{"apiKey": "hush hush hush hush" oops')]),
      /is not JSON, at position \d+/,
    ],
    ['no object', () => load(['--config', file([1])]), /must hold one JSON object/],
    ['a named file that is missing', () => load(['--config', join(folder, 'none.json')]), /none\.json cannot be read/],
    [
      'cluster without MongoDB',
      () => load(['--mode', 'cluster']),
      /mongodbUri is missing; .*CARILLON_MONGODB_URI or --mongodb-uri/,
    ],
    ['embedded with a role', () => load(['--role', 'worker']), /role is worker, but embedded mode is one process/],
    [
      'an open address without a key',
      () => load(['--listen-host', '0.0.0.0']),
      /listenHost is 0\.0\.0\.0, .*there is no apiKey; set apiKey \(CARILLON_API_KEY\)/,
    ],
    [
      'an open admin address without a key',
      () => load(['--admin-host', '::', '--admin-port', '9090']),
      /adminHost is ::/,
    ],
    ['a short key', () => load([], { CARILLON_API_KEY: 'hush' }), /apiKey is shorter than 16 characters/],
    ['a blank key', () => load([], { CARILLON_API_KEY: ' '.repeat(20) }), /apiKey is blank .*CARILLON_API_KEY/],
    ['a key no header carries', () => load([], { CARILLON_API_KEY: 'hush hush hush hush' }), /holds spaces/],
  ];
  it.each(refusals)('%s', (_, attempt, message) => {
    expect(attempt).toThrow(expect.objectContaining({ code: 'setup-refused', detail: expect.stringMatching(message) }));
    expect(attempt).not.toThrow(/hush/);
  });

  it('an open address is taken with a key, and a worker opens none', () => {
    expect(load(['--listen-host', '0.0.0.0'], { CARILLON_API_KEY: 'k'.repeat(16) }).listenHost).toBe('0.0.0.0');
    expect(load(['--listen-host', '0.0.0.0', '--role', 'worker'], CLUSTER).role).toBe('worker');
  });

  it.each([
    ['127.0.0.1', true],
    ['127.8.8.8', true],
    ['::1', true],
    ['localhost', true],
    ['0.0.0.0', false],
    ['::', false],
    ['127.example.org', false],
  ])('%s is this machine only: %s', (host, expected) => {
    expect(isLoopback(host)).toBe(expected);
  });
});

describe('settings: secrets', () => {
  it('are not in what is printed', () => {
    const printed = printableConfig(load([], { ...CLUSTER, CARILLON_API_KEY: 'hush'.repeat(4) }));
    expect(JSON.stringify(printed)).not.toContain('hush');
    expect(printed).toMatchObject({ apiKey: '(set)', mongodbUri: 'mongodb://***@127.0.0.1:27017/?replicaSet=rs0' });
    expect(printableConfig(load()).apiKey).toBeNull();
  });

  it.each([
    ['redis://:hush@host:1', 'redis://***@host:1'],
    ['cannot reach mongodb://u:hu/sh@a,b/x: refused', 'cannot reach mongodb://***@a,b/x: refused'],
    ['http://host/path', 'http://host/path'],
  ])('%s', (text, expected) => {
    expect(withoutPassword(text)).toBe(expected);
  });
});
