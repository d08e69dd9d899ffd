import { createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { Cluster } from '../../../src/adapters/kafka/cluster.ts';
import { type KafkaOptions, settingsOf } from '../../../src/adapters/kafka/options.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** What a server gets first from the connection layer with these settings; it answers which requests it knows. */
async function firstOf(options: Partial<KafkaOptions>, wanted: (bytes: Buffer) => boolean): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<Buffer>();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      if (wanted(bytes)) resolve(bytes);
      else socket.write(apiVersionsAnswer(bytes.readInt32BE(8)));
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as { port: number };
  const cluster = new Cluster(settingsOf({ brokers: [`localhost:${port}`], clientId: 'settings', ...options }));
  closing.push(
    () => new Promise((closed) => server.close(closed)),
    async () => sockets.forEach((socket) => void socket.destroy()),
    () => cluster.close(),
  );
  cluster.anyone().catch(() => {});
  return await promise;
}

/** A Kafka request: length 4, api key 2, version 2, correlation 4, client id, then its content. */
const apiKeyOf = (request: Buffer): number => request.readInt16BE(4);
const SASL_HANDSHAKE = 17;
const API_VERSIONS = 18;
const SASL_AUTHENTICATE = 36;

/** ApiVersions 3: no error, api keys from version 0 to 2, no throttling. */
function apiVersionsAnswer(correlation: number): Buffer {
  const keys = [SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE];
  const body = Buffer.concat([
    Buffer.from([0, 0, keys.length + 1]),
    ...keys.map((key) => Buffer.from([0, key, 0, 0, 0, 4, 0])),
    Buffer.from([0, 0, 0, 0, 0]),
  ]);
  const head = Buffer.alloc(8);
  head.writeInt32BE(4 + body.length, 0);
  head.writeInt32BE(correlation, 4);
  return Buffer.concat([head, body]);
}

/** First bytes of a TLS record that holds a handshake, version 3.x. */
const TLS_HANDSHAKE = [0x16, 0x03];
const anything = (): boolean => true;

describe('settings of the connection reach the server', () => {
  test('TLS: the connection begins with its handshake, and names the host', async () => {
    const bytes = await firstOf({ ssl: {} }, anything);
    expect([...bytes.subarray(0, 2)]).toEqual(TLS_HANDSHAKE);
    expect(bytes.includes('localhost')).toBe(true);
  });

  test.each(['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const)(
    'SASL %s: it is asked for before any other request',
    async (mechanism) => {
      const sasl = { mechanism, username: 'carillon', password: 'secret' };
      const bytes = await firstOf({ sasl }, (one) => apiKeyOf(one) !== API_VERSIONS);
      expect(apiKeyOf(bytes)).toBe(SASL_HANDSHAKE);
      expect(bytes.includes(mechanism)).toBe(true);
      expect(bytes.includes('secret')).toBe(false);
    },
  );

  test('SASL over TLS is not sent in the clear', async () => {
    const sasl = { mechanism: 'PLAIN' as const, username: 'carillon', password: 'secret' };
    const bytes = await firstOf({ ssl: {}, sasl }, anything);
    expect([...bytes.subarray(0, 2)]).toEqual(TLS_HANDSHAKE);
    expect(bytes.includes('PLAIN')).toBe(false);
  });
});
