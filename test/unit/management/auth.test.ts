import { request } from 'node:http';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkListen } from '../../../src/management/auth.ts';
import { type ApiUnderTest, CRON, JOBS, openApi } from './api.ts';

const KEY = 'a-long-and-secret-key';
let api: ApiUnderTest;
let port: number;
beforeAll(async () => {
  api = await openApi({ options: { apiKey: KEY } });
  port = Number(new URL(await api.app.listen({ host: '127.0.0.1', port: 0 })).port);
});
afterAll(() => api.close());

/** Sends bytes over a socket and answers what comes until the server closes. */
function raw(bytes: string | Uint8Array): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.on('data', (data) => {
      text += data.toString('latin1');
    });
    socket.on('close', () => resolve(text));
    socket.on('error', reject);
  });
}

const AUTH = `Host: x\r\nAuthorization: Bearer ${KEY}\r\nConnection: close\r\n`;

describe('O-AP-03: the key', () => {
  const routes: [string, string][] = [
    ['GET', JOBS],
    ['POST', JOBS],
    ['PUT', `${JOBS}/x`],
    ['PATCH', `${JOBS}/x`],
    ['DELETE', `${JOBS}/x`],
    ['POST', `${JOBS}/x/fire`],
    ['POST', `${JOBS}:bulk`],
    ['POST', '/v1/preview'],
    ['GET', '/v1/clusters'],
    ['GET', '/v1/installation'],
    ['PUT', '/v1/calendars/x'],
    ['GET', '/metrics'],
    ['GET', '/openapi.json'],
    ['GET', '/unknown'],
    ['TRACE', JOBS],
    ['OPTIONS', JOBS],
    ['POST', '/healthz'],
    ['GET', '/healthz/'],
    ['GET', '/v1/%E0%A4%A'],
  ];
  const wrong: Record<string, Record<string, string>> = {
    'no header': {},
    'an empty header': { authorization: '' },
    'a scheme alone': { authorization: 'Bearer ' },
    'a wrong key': { authorization: 'Bearer wrong' },
    'the key with more behind it': { authorization: `Bearer ${KEY}x` },
    'another scheme': { authorization: `Basic ${Buffer.from(`x:${KEY}`).toString('base64')}` },
    'the key alone': { authorization: KEY },
    'the key in another header': { 'x-api-key': KEY },
  };

  it.each(routes)('%s %s answers 401 without it', async (method, url) => {
    for (const [name, headers] of Object.entries(wrong)) {
      const { status, json } = await api.call(method, url, undefined, headers);
      expect({ name, status, code: json?.code }).toEqual({ name, status: 401, code: 'unauthorized' });
    }
    for (const name of ['token', 'key', 'apiKey', 'access_token']) {
      expect((await api.call(method, `${url}?${name}=${KEY}`)).status).toBe(401);
    }
  });

  it('health needs none, and tells nothing', async () => {
    expect(await api.call('GET', '/healthz')).toMatchObject({ status: 200, json: { status: 'ok' } });
    expect(await api.call('GET', '/readyz')).toMatchObject({ status: 200, json: { status: 'ok' } });
  });

  it('opens every route', async () => {
    const authorization = `Bearer ${KEY}`;
    expect((await api.call('GET', JOBS, undefined, { authorization })).status).toBe(200);
    expect((await api.call('GET', JOBS, undefined, { authorization: `bearer ${KEY}` })).status).toBe(200);
  });

  it('a header that comes twice is refused, even when one of them is right', async () => {
    const twice = (a: string, b: string) =>
      raw(`GET ${JOBS} HTTP/1.1\r\nHost: x\r\nAuthorization: ${a}\r\nAuthorization: ${b}\r\nConnection: close\r\n\r\n`);
    for (const [a, b] of [
      [`Bearer ${KEY}`, 'Bearer wrong'],
      ['Bearer wrong', `Bearer ${KEY}`],
      [`Bearer ${KEY}`, `Bearer ${KEY}`],
    ] as const) {
      expect(await twice(a, b)).toContain('401 Unauthorized');
    }
  });

  it('no key is an error at start where others reach the API, and so is an empty or blank one', () => {
    for (const host of ['0.0.0.0', '::', '192.168.1.4', 'example.org', '127.evil.example', '']) {
      expect(() => checkListen(host, null), host).toThrow('apiKey');
      expect(() => checkListen(host, KEY)).not.toThrow();
    }
    for (const host of ['127.0.0.1', '127.1.2.3', '::1', 'localhost'])
      expect(() => checkListen(host, null)).not.toThrow();
    for (const blank of ['', ' ', '\t ']) expect(() => checkListen('127.0.0.1', blank)).toThrow('empty or blank');
  });
});

describe('O-AP-07: bytes that are no good request', () => {
  it.each([
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['a broken header', `GET / HTTP/1.1\r\nHost x\r\n\r\n`],
    ['two lengths', `POST ${JOBS} HTTP/1.1\r\n${AUTH}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`],
    ['a length that is no number', `POST ${JOBS} HTTP/1.1\r\n${AUTH}Content-Length: 2x\r\n\r\n{}`],
    ['length and chunks', `POST ${JOBS} HTTP/1.1\r\n${AUTH}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`],
    ['no Host', `GET / HTTP/1.1\r\nAuthorization: Bearer ${KEY}\r\nConnection: close\r\n\r\n`],
    ['two Hosts', `GET / HTTP/1.1\r\n${AUTH}Host: y\r\nConnection: close\r\n\r\n`],
    ['an expectation', `POST ${JOBS} HTTP/1.1\r\n${AUTH}Expect: miracles\r\nContent-Length: 2\r\n\r\n{}`],
    ['a header of 100 kB', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`],
    [
      'bad chunks',
      `POST ${JOBS} HTTP/1.1\r\n${AUTH}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}`,
    ],
  ])('%s is a 400 problem, and the connection is closed', async (_, bytes) => {
    const answer = await raw(bytes);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain('application/problem+json');
    expect(answer).not.toContain('node:');
  });

  it('a body that is shorter or longer than its length', async () => {
    const body = JSON.stringify({ key: 'len', schedule: CRON });
    const head = (length: number) =>
      `POST ${JOBS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n`;
    const longer = await raw(`${head(body.length - 5)}\r\n${body}`);
    expect(longer).toMatch(/^HTTP\/1\.1 400 /);
    // The client ends its side: nothing more will come.
    const shorter = await new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () =>
        socket.end(`${head(body.length + 50)}Connection: close\r\n\r\n${body}`),
      );
      let text = '';
      socket.on('data', (data) => {
        text += data.toString('latin1');
      });
      socket.on('close', () => resolve(text));
      socket.on('error', reject);
    });
    expect(shorter).not.toContain('201');
    expect(await api.stores.jobs.get('default', 'len')).toBeNull();
  });

  it('a gzip bomb is refused before it is unpacked, and the next call on the connection works or it is closed', async () => {
    const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024));
    const status = await new Promise<number>((resolve, reject) => {
      const sent = request(
        {
          port,
          host: '127.0.0.1',
          method: 'POST',
          path: JOBS,
          headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'content-encoding': 'gzip' },
        },
        (response) => {
          response.resume();
          resolve(response.statusCode!);
        },
      );
      sent.on('error', reject);
      sent.end(bomb);
    });
    expect(status).toBe(415);
    expect((await api.call('GET', '/healthz')).status).toBe(200);
  });

  it('after a refused body the connection is closed and says so, after any other refusal it goes on', async () => {
    const good = `GET /healthz HTTP/1.1\r\n${AUTH}\r\n`;
    const head = `Host: x\r\nAuthorization: Bearer ${KEY}\r\n`;
    const body = `POST ${JOBS} HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{`;
    expect(await raw(body + good)).toMatch(/^HTTP\/1\.1 400 [\s\S]*connection: close/);
    for (const url of ['/unknown', '/v1/%E0%A4%A', `${JOBS}?limit=%`]) {
      expect(await raw(`GET ${url} HTTP/1.1\r\n${head}\r\n${good}`)).toMatch(
        /^HTTP\/1\.1 40[04] [\s\S]*HTTP\/1\.1 200 OK/,
      );
    }
  });
});
