import { createServer } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { apiServer } from '../../../src/management/server.ts';
import { type ApiUnderTest, openApi } from './api.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

it('listens, answers, and can be started again after its stop', async () => {
  const server = apiServer(api.deps, { host: '127.0.0.1', port: 0 });
  for (let round = 0; round < 2; round++) {
    await server.start();
    const { host, port } = server.address!;
    const response = await fetch(`http://${host}:${port}/healthz`);
    expect(await response.json()).toEqual({ status: 'ok' });
    await server.stop();
    expect(server.address).toBeNull();
  }
});

it('a port that is taken is refused with the mend', async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as { port: number };
  await expect(apiServer(api.deps, { host: '127.0.0.1', port }).start()).rejects.toMatchObject({
    code: 'setup-refused',
    detail: expect.stringContaining('listenPort'),
  });
  await new Promise((resolve) => other.close(resolve));
});

it('O-AP-03: an address that others reach is refused without a key, before anything listens', async () => {
  for (const [host, apiKey] of [
    ['0.0.0.0', null],
    ['::', null],
    ['127.0.0.1', ''],
    ['0.0.0.0', '   '],
  ] as const) {
    const options = { ...api.deps.options, apiKey };
    const server = apiServer({ ...api.deps, options }, { host, port: 0 });
    await expect(server.start()).rejects.toMatchObject({ code: 'setup-refused' });
    expect(server.address).toBeNull();
  }
});
