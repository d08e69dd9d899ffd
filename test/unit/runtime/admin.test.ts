import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import { type AdminOptions, adminServer } from '../../../src/runtime/admin.ts';

const running: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of running.splice(0)) await one.stop();
});

async function admin(more: Partial<AdminOptions> = {}) {
  const server = adminServer({
    host: '127.0.0.1',
    port: 0,
    apiKey: null,
    telemetry: silentTelemetry,
    metrics: { text: async () => 'carillon_x 1\n', contentType: 'text/plain; version=0.0.4' },
    notReady: () => null,
    ...more,
  });
  await server.start();
  running.push(server);
  return (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${server.port()}${path}`, init);
}

describe('admin listener', () => {
  it('answers health and metrics', async () => {
    const get = await admin();
    expect(await (await get('/healthz')).text()).toBe('ok\n');
    expect(await (await get('/readyz?probe=1')).text()).toBe('ready\n');
    const metrics = await get('/metrics');
    expect([metrics.status, metrics.headers.get('content-type'), await metrics.text()]).toEqual([
      200,
      'text/plain; version=0.0.4',
      'carillon_x 1\n',
    ]);
  });

  it('is not ready with the reason', async () => {
    const get = await admin({ notReady: () => 'no slots yet' });
    const answer = await get('/readyz');
    expect([answer.status, await answer.text()]).toEqual([503, 'no slots yet\n']);
  });

  it('knows no other route and no other method', async () => {
    const get = await admin();
    expect((await get('/')).status).toBe(404);
    const post = await get('/metrics', { method: 'POST', body: 'x' });
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    const head = await get('/metrics', { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });

  it('wants the key for metrics, not for health, when there is one', async () => {
    const get = await admin({ apiKey: 'k'.repeat(16) });
    const status = async (authorization?: string): Promise<number> =>
      (await get('/metrics', authorization === undefined ? {} : { headers: { authorization } })).status;
    expect(await status()).toBe(401);
    expect(await status(`Bearer ${'k'.repeat(15)}`)).toBe(401);
    expect(await status(`Bearer ${'k'.repeat(17)}`)).toBe(401);
    expect(await status('Bearer ')).toBe(401);
    expect(await status(`Basic ${'k'.repeat(16)}`)).toBe(401);
    expect(await status(`Bearer ${'k'.repeat(16)}`)).toBe(200);
    expect((await get('/healthz')).status).toBe(200);
    expect((await get('/readyz')).status).toBe(200);
  });

  it('tells of metrics that fail, and goes on', async () => {
    const get = await admin({ metrics: { text: async () => Promise.reject(new Error('no')), contentType: 'x' } });
    expect((await get('/metrics')).status).toBe(500);
    expect((await get('/healthz')).status).toBe(200);
  });

  it('refuses a port that is taken, naming it, the setting and the mend', async () => {
    const other = createServer();
    await new Promise<void>((done) => other.listen(0, '127.0.0.1', done));
    const address = other.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    await expect(admin({ port })).rejects.toMatchObject({
      code: 'setup-refused',
      detail: expect.stringMatching(
        new RegExp(`port ${port} on 127\\.0\\.0\\.1 is taken.*adminPort \\(CARILLON_ADMIN_PORT\\)`),
      ),
    });
    await new Promise((done) => other.close(done));
  });

  it('refuses an address that is not of this machine', async () => {
    await expect(admin({ host: '192.0.2.1' })).rejects.toMatchObject({ code: 'setup-refused' });
  });

  it('stops with connections open, and starts again', async () => {
    const server = adminServer({
      host: '127.0.0.1',
      port: 0,
      apiKey: null,
      telemetry: silentTelemetry,
      metrics: { text: async () => '', contentType: 'x' },
      notReady: () => null,
    });
    await server.start();
    await (await fetch(`http://127.0.0.1:${server.port()}/healthz`)).text();
    await server.stop();
    expect(server.port()).toBeNull();
    await server.start();
    expect((await fetch(`http://127.0.0.1:${server.port()}/healthz`)).status).toBe(200);
    await server.stop();
  });
});
