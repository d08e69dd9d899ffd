import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { settingsOf } from '../../../src/adapters/kafka/options.ts';
import { kafkaSecurity } from '../../../src/cli/kafka-security.ts';
import { loadConfig, printableConfig } from '../../../src/runtime/config.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function pemFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kafka-security-'));
  folders.push(folder);
  const file = join(folder, 'ca.pem');
  writeFileSync(file, 'the authorities');
  return file;
}

const load = (environment: Record<string, string>) => loadConfig({ flags: [], environment });

/** What the connection layer is told. */
function connectionOf(environment: Record<string, string>) {
  const { tls, tlsServerName, sasl } = settingsOf({
    brokers: ['a:1'],
    clientId: 'c',
    ...kafkaSecurity(load(environment)),
  }).connection;
  return { tls, tlsServerName, sasl };
}

test('the settings reach the connection layer', () => {
  expect(connectionOf({})).toEqual({});
  expect(connectionOf({ CARILLON_KAFKA_TLS: 'on' })).toEqual({ tls: {}, tlsServerName: true });
  const all = {
    CARILLON_KAFKA_TLS: 'on',
    CARILLON_KAFKA_CA_FILE: pemFile(),
    CARILLON_KAFKA_SASL: 'SCRAM-SHA-512',
    CARILLON_KAFKA_USERNAME: 'carillon',
    CARILLON_KAFKA_PASSWORD: 'secret',
  };
  expect(connectionOf(all)).toEqual({
    tls: { ca: 'the authorities' },
    tlsServerName: true,
    sasl: { mechanism: 'SCRAM-SHA-512', username: 'carillon', password: 'secret' },
  });
  expect(JSON.stringify(printableConfig(load(all)))).not.toContain('secret');
});

test('SASL without a name or a password is refused at the start, and so is a file that is not there', () => {
  const sasl = { CARILLON_KAFKA_SASL: 'PLAIN', CARILLON_KAFKA_USERNAME: 'carillon' };
  expect(() => load(sasl)).toThrow('set CARILLON_KAFKA_USERNAME and CARILLON_KAFKA_PASSWORD');
  expect(() => connectionOf({ CARILLON_KAFKA_TLS: 'on', CARILLON_KAFKA_CA_FILE: '/nowhere/ca.pem' })).toThrow(
    'kafkaCaFile /nowhere/ca.pem cannot be read',
  );
});
