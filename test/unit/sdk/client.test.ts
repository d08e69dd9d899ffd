import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ApiError } from '../../../src/sdk/api-error.ts';
import { CarillonClient } from '../../../src/sdk/client.ts';
import { caseOf } from '../schedule/case-file.ts';
import { type RunningApi, startApi } from './api.ts';

const daily = { kind: 'cron', expression: '0 6 * * *', zone: 'Europe/Madrid' } as const;

const failure = (call: Promise<unknown>): Promise<ApiError> =>
  call.then(
    () => {
      throw new Error('it was expected to fail');
    },
    (error: unknown) => {
      expect(error).toBeInstanceOf(ApiError);
      return error as ApiError;
    },
  );

describe('client against the API', () => {
  let api: RunningApi;
  let client: CarillonClient;

  beforeAll(async () => {
    api = await startApi({ apiKey: 'secret' });
    client = new CarillonClient({ url: `${api.url}/`, apiKey: 'secret' });
  });
  afterAll(() => api.close());

  test('a job from its creation to its end', async () => {
    const created = await client.jobs.create({ key: 'a/b', schedule: daily, payload: { n: 1 } });
    expect(created).toMatchObject({ key: 'a/b', version: 1, state: 'enabled', result: 'created', payload: { n: 1 } });
    expect((await failure(client.jobs.create({ key: 'a/b', schedule: daily }))).code).toBe('job-exists');
    expect(await client.jobs.put({ key: 'a/b', schedule: daily, payload: { n: 1 } })).toMatchObject({
      result: 'unchanged',
    });
    expect(await client.jobs.patch('a/b', { payload: { n: 2 } }, { ifVersion: 1 })).toMatchObject({ version: 2 });
    const stale = await failure(client.jobs.patch('a/b', { payload: { n: 3 } }, { ifVersion: 1 }));
    expect(stale).toMatchObject({ code: 'version-mismatch', status: 412, retryable: false });
    expect(await client.jobs.pause('a/b')).toMatchObject({ state: 'paused' });
    expect(await client.jobs.resume('a/b')).toMatchObject({ state: 'enabled' });
    expect(await client.jobs.fire('a/b', { requestKey: 'r1' })).toMatchObject({
      id: expect.stringMatching(/^0-1-\d+-fr1$/),
      key: 'a/b',
    });
    expect(await client.jobs.terminate('a/b')).toMatchObject({ state: 'terminated' });
    await client.jobs.delete('a/b');
    expect((await failure(client.jobs.get('a/b'))).code).toBe('job-not-found');
  });

  test('an error tells code, field, token and every fault', async () => {
    const bad = await failure(client.jobs.put({ key: 'x', schedule: { kind: 'cron', expression: '61 * * * *' } }));
    expect(bad).toMatchObject({ code: 'schedule-invalid', status: 400, field: 'schedule.expression' });
    const form = { key: 'x', schedule: daily, shedule: 1, colour: 2 };
    const unknown = await failure(client.jobs.put(form));
    expect(unknown.faults.map(({ field }) => field).sort()).toEqual(['colour', 'shedule']);
    const other = new CarillonClient({ url: api.url, apiKey: 'wrong' });
    expect(await failure(other.jobs.get('x'))).toMatchObject({ code: 'unauthorized', status: 401 });
  });

  test('O-SC-03: each key works in every call or is refused, and touches no other job', async () => {
    const { keys: written } = caseOf('O-SC-03').input as { keys?: (string | { repeat: string; times: number })[] };
    const keys = written!.map((key) => (typeof key === 'string' ? key : key.repeat.repeat(key.times)));
    const kept: string[] = [];
    for (const key of keys) {
      const outcome = await client.jobs.put({ key, schedule: daily, payload: key }).catch((error: ApiError) => error);
      if (outcome instanceof ApiError) expect(outcome).toMatchObject({ code: 'request-invalid', field: 'key' });
      else kept.push(key);
    }
    expect(keys.filter((key) => !kept.includes(key))).toEqual(['..', '.', 'x'.repeat(256), 'x'.repeat(5000), '']);
    for (const key of kept) {
      expect(await client.jobs.get(key)).toMatchObject({ key, payload: key, version: 1 });
      expect(await client.jobs.pause(key)).toMatchObject({ key, version: 2 });
      await client.jobs.delete(key);
      const left: string[] = [];
      for await (const job of client.jobs.list({ pageSize: 3 })) left.push(job.key);
      expect(left.sort()).toEqual(kept.slice(kept.indexOf(key) + 1).sort());
    }
  });

  test('lists page by page, by prefix and state', async () => {
    const keys = Array.from({ length: 25 }, (_, n) => `list/${String(n).padStart(2, '0')}`);
    for (const key of keys)
      await client.jobs.put({ key, schedule: daily, state: key.endsWith('7') ? 'paused' : 'enabled' });
    const seen: string[] = [];
    for await (const job of client.jobs.list({ prefix: 'list/', pageSize: 10 })) seen.push(job.key);
    expect(seen).toEqual(keys);
    const paused: string[] = [];
    for await (const job of client.jobs.list({ prefix: 'list/', state: 'paused' })) paused.push(job.key);
    expect(paused).toEqual(['list/07', 'list/17']);
  });

  test('bulk streams from an async iterable, and its operation tells each failing line', async () => {
    async function* jobs() {
      for (let n = 0; n < 3_000; n++) {
        yield n === 9
          ? '{"key":"bad","schedule":{"kind":"cron","expression":"nope"}}'
          : { key: `bulk-${n}`, schedule: daily };
      }
    }
    let progress = 0;
    const { key } = await client.jobs.bulk(jobs, {
      key: 'op-1',
      onProgress: (lines) => {
        progress = lines;
      },
    });
    const operation = await client.operations.wait(key, { timeoutMs: 20_000 });
    expect(progress).toBe(3_000);
    expect(operation).toMatchObject({ state: 'done', lines: 3_000, counts: { created: 2_999, failed: 1 } });
    expect(operation.errors).toMatchObject([{ line: 10, code: 'schedule-invalid', field: 'schedule.expression' }]);
    await client.jobs.bulk(jobs, { key: 'op-1' });
    expect((await client.operations.get('op-1')).counts).toEqual(operation.counts);
    expect((await client.operations.list()).map((one) => one.key)).toEqual(['op-1']);
  });

  test('an error of the caller’s own iterable comes out as it is', async () => {
    async function* jobs() {
      yield { key: 'fine', schedule: daily };
      throw new RangeError('no more');
    }
    await expect(client.jobs.bulk(jobs)).rejects.toThrow(new RangeError('no more'));
  });

  test('previews, logical clusters and calendars', async () => {
    const { occurrences } = await client.preview({ schedule: daily, after: '2027-01-01T00:00:00Z', count: 2 });
    expect(occurrences.map(({ nominal }) => nominal)).toEqual(['2027-01-01T05:00:00Z', '2027-01-02T05:00:00Z']);
    expect(await client.clusters.create({ name: 'other', partitions: 3 })).toMatchObject({
      name: 'other',
      partitions: 3,
    });
    expect((await client.clusters.list()).map(({ name }) => name).sort()).toEqual(['default', 'other']);
    await client.calendars.put('spain/madrid', { weekdays: ['sun'] });
    expect(await client.calendars.get('spain/madrid')).toMatchObject({
      version: 1,
      definition: { weekdays: ['sun'] },
    });
    await client.calendars.delete('spain/madrid', { ifVersion: 1 });
    expect(await client.calendars.list()).toEqual([]);
  });

  test('O-SC-04: NUL and half of a surrogate pair come back unchanged in a payload, and are refused in a key', async () => {
    for (const payload of ['x\u0000y', '\ud800x', { 'k\u0000': ['\udc00'] }]) {
      await client.jobs.put({ key: 'text', schedule: daily, payload });
      expect((await client.jobs.get('text')).payload).toEqual(payload);
    }
    for (const key of ['a\u0000b', 'a\ud800']) {
      expect((await failure(client.jobs.put({ key, schedule: daily }))).code).toMatch(/^request-/);
      expect((await failure(client.jobs.create({ key, schedule: daily }))).code).toMatch(/^request-/);
    }
  });

  test('a payload as text goes out byte for byte, and only if it is JSON', async () => {
    await client.jobs.put({ key: 'bytes', schedule: daily }, { payloadText: '{"n": 1.0, "big":12345678901234567890}' });
    expect((await api.stores.jobs.get('default', 'bytes'))!.payload).toBe('{"n": 1.0, "big":12345678901234567890}');
    const broken = await failure(client.jobs.put({ key: 'bytes', schedule: daily }, { payloadText: '1,"key":"x"' }));
    expect(broken).toMatchObject({ code: 'request-malformed', field: 'payload' });
  });

  test('O-SC-05: __proto__ arrives in a payload and is an unknown field elsewhere', async () => {
    const payload: unknown = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"p2":1}},"a":1}');
    const written = await client.jobs.put({ key: 'proto', schedule: daily, payload });
    expect(JSON.stringify(written.payload)).toBe(JSON.stringify(payload));
    const form: unknown = JSON.parse(
      '{"key":"proto","schedule":{"kind":"once","at":"2030-01-01T00:00:00Z"},"__proto__":{}}',
    );
    expect((await failure(client.jobs.put(form as never))).code).toBe('request-invalid');
    expect(({} as Record<string, unknown>)['polluted'] ?? ({} as Record<string, unknown>)['p2']).toBeUndefined();
  });
});

describe('client and a server in trouble', () => {
  let server: Server;
  let seen: string[] = [];
  let answer: (request: IncomingMessage, response: ServerResponse, count: number) => void;
  let client: CarillonClient;
  const problem = (response: ServerResponse, status: number, code: string) =>
    response
      .writeHead(status, { 'content-type': 'application/problem+json' })
      .end(JSON.stringify({ code, detail: 'd' }));

  beforeAll(async () => {
    server = createServer((request, response) => {
      seen.push(`${request.method} ${request.url}`);
      request.resume();
      answer(request, response, seen.length);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    client = new CarillonClient({ url: `http://127.0.0.1:${port}`, retries: 2, retryMs: 1 });
  });
  afterEach(() => {
    seen = [];
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  test('what is refused for now is tried again, whatever the method; what is wrong is not', async () => {
    answer = (_, response, count) =>
      count < 3 ? problem(response, 503, 'unavailable') : void response.writeHead(201).end('{"key":"k"}');
    expect(await client.jobs.create({ key: 'k', schedule: daily })).toEqual({ key: 'k' });
    expect(seen).toHaveLength(3);
    seen = [];
    answer = (_, response) => problem(response, 400, 'request-invalid');
    await failure(client.jobs.get('k'));
    expect(seen).toHaveLength(1);
    seen = [];
    answer = (_, response) => problem(response, 429, 'too-many-requests');
    expect((await failure(client.jobs.get('k'))).tries).toBe(3);
  });

  test('after a lost answer only what may be done twice is repeated', async () => {
    answer = (request, response, count) => {
      if (count === 1) request.socket.destroy();
      else response.end('{"key":"k"}');
    };
    expect(await client.jobs.put({ key: 'k', schedule: daily })).toEqual({ key: 'k' });
    for (const once of [
      () => client.jobs.create({ key: 'k', schedule: daily }),
      () => client.jobs.put({ key: 'k', schedule: { kind: 'delay', delayMs: 1_000 } }),
      () => client.jobs.patch('k', {}, { ifVersion: 2 }),
    ]) {
      seen = [];
      expect(await failure(once())).toMatchObject({ code: 'network', retryable: true });
      expect(seen).toHaveLength(1);
    }
    seen = [];
    answer = (request, response, count) => {
      if (count === 1) request.socket.destroy();
      else problem(response, 404, 'job-not-found');
    };
    await client.jobs.delete('k');
  });

  test('202 is told as accepted, a proxy’s page by its status, silence as a time-out', async () => {
    answer = (_, response) => response.writeHead(202, { location: '/v1/x' }).end('{"result":"accepted"}');
    const options = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, retries: 0 };
    const patient = new CarillonClient(options);
    expect(await failure(patient.jobs.pause('k'))).toMatchObject({ code: 'accepted', status: 202, location: '/v1/x' });
    answer = (_, response) => response.writeHead(502).end('<html>');
    expect(await failure(patient.jobs.get('k'))).toMatchObject({ status: 502, detail: 'HTTP status 502' });
    answer = () => {};
    const hasty = new CarillonClient({ ...options, timeoutMs: 20 });
    expect(await failure(hasty.jobs.get('k'))).toMatchObject({ code: 'timeout', status: 0 });
    const away = new CarillonClient({ url: 'http://127.0.0.1:9', retries: 0 });
    expect((await failure(away.jobs.get('k'))).message).toContain('http://127.0.0.1:9');
  });

  test('the caller’s signal ends a call at once', async () => {
    answer = () => {};
    const controller = new AbortController();
    const call = client.jobs.get('k', { signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
  });

  test('a bulk stream that broke is sent again under its key, from the beginning', async () => {
    const bodies: string[] = [];
    answer = (request, response, count) => {
      let body = '';
      if (count === 1) {
        request.socket.destroy();
        return;
      }
      request.on('data', (chunk: Buffer) => {
        body += chunk.toString();
      });
      request.on('end', () => {
        bodies.push(`${String(request.headers['idempotency-key'])} ${body}`);
        response.writeHead(202).end('{}');
      });
    };
    const jobs = [{ key: 'k', schedule: daily }, '{\n"key":"l"}'];
    expect(await client.jobs.bulk(jobs, { key: 'op' })).toEqual({ key: 'op' });
    expect(bodies).toEqual([`op ${JSON.stringify(jobs[0])}\n{ "key":"l"}\n`]);
    answer = (request) => request.socket.destroy();
    seen = [];
    expect((await failure(client.jobs.bulk([...jobs].values()))).code).toBe('network');
    expect(seen).toHaveLength(1);
  });
});
