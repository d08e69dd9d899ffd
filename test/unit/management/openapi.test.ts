import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, type ApiUnderTest, CRON, JOBS, jobUrl, openApi } from './api.ts';
import { BAD_REQUESTS, GOOD, WEEKEND } from './bad-input.table.ts';

interface Described {
  parameters?: { name: string; in: string }[];
  requestBody?: { content: Record<string, unknown> };
  responses: Record<string, { description: string; headers?: object; content?: Record<string, { schema: object }> }>;
  security?: object[];
}
type Paths = Record<string, Record<string, Described>>;

let api: ApiUnderTest;
let paths: Paths;
let ajv: Ajv2020;
beforeAll(async () => {
  api = await openApi();
  await api.call('PUT', jobUrl('there'), GOOD);
  await api.call('PUT', '/v1/calendars/weekend', WEEKEND);
  const { json } = await api.call('GET', '/openapi.json');
  paths = json.paths;
  ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema(json, 'api');
});
afterAll(() => api.close());

/** Path template and description of a request; undefined where the API has no such route. */
function routeOf(method: string, url: string): { path: string; described: Described } | undefined {
  const path = Object.keys(paths).find((template) => {
    const pattern = template.replaceAll(/[.]/g, '\\.').replaceAll(/\{\w+\}/g, '[^/:]+');
    return new RegExp(`^${pattern}$`).test(url.split('?', 1)[0]!);
  });
  const described = path === undefined ? undefined : paths[path]![method.toLowerCase()];
  return described === undefined ? undefined : { path: path!, described };
}

/** The answer has a status, headers and a body that are described for its route. */
function expectDescribed(method: string, url: string, { status, headers, text, json }: Answer): void {
  const route = routeOf(method, url);
  if (route === undefined) {
    expect([400, 404, 405]).toContain(status);
    return;
  }
  const response = route.described.responses[status];
  expect(response, `${method} ${route.path} has no ${status}: ${text}`).toBeDefined();
  for (const header of ['etag', 'location']) {
    expect(Object.hasOwn(response!.headers ?? {}, header), `${method} ${url} ${status} ${header}`).toBe(
      header in headers,
    );
  }
  const type = String(headers['content-type'] ?? '').split(';')[0]!;
  if (response!.content === undefined) {
    expect(text).toBe('');
    return;
  }
  expect(Object.keys(response!.content)).toContain(type);
  if (!type.endsWith('json')) return;
  const pointer = ['paths', route.path, method.toLowerCase(), 'responses', String(status), 'content', type, 'schema'];
  const validate = ajv.compile({ $ref: `api#/${pointer.map((part) => part.replaceAll('/', '~1')).join('/')}` });
  expect(validate(json) ? [] : validate.errors, `${method} ${url} ${status} ${text}`).toEqual([]);
}

describe('openapi.json', () => {
  it('describes of every route its answers, its problems and what it takes', () => {
    const all = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, described]) => ({ name: `${method} ${path}`, described })),
    );
    expect(all.length).toBeGreaterThanOrEqual(27);
    for (const { name, described } of all) {
      const statuses = Object.keys(described.responses);
      expect(
        statuses.some((status) => status.startsWith('2')),
        name,
      ).toBe(true);
      for (const status of ['400', '500', '503']) expect(statuses, name).toContain(status);
      if (/^(put|patch|post) .*(jobs|jobs:bulk|jobs\/\{key\}|preview|clusters|\{name\}|commit)$/.test(name)) {
        expect(described.requestBody, name).toBeDefined();
        expect(statuses, name).toEqual(expect.arrayContaining(['413', '415']));
      }
    }
    const names = (method: string, path: string) => paths[path]![method]!.parameters!.map(({ name }) => name).sort();
    expect(names('get', '/v1/clusters/{cluster}/jobs')).toEqual(['cluster', 'cursor', 'limit', 'prefix', 'state']);
    expect(names('put', '/v1/clusters/{cluster}/jobs/{key}')).toEqual(['cluster', 'if-match', 'if-none-match', 'key']);
    expect(names('post', '/v1/clusters/{cluster}/jobs/{key}/fire')).toContain('idempotency-key');
    const bulk = paths['/v1/clusters/{cluster}/jobs:bulk']!['post']!.requestBody!;
    expect(Object.keys(bulk.content)).toEqual(['application/x-ndjson', 'application/json']);
  });

  it('asks for the key where one is configured, but for health', async () => {
    const keyed = await openApi({ options: { apiKey: 'secret' } });
    const { json } = await keyed.call('GET', '/openapi.json', undefined, { authorization: 'Bearer secret' });
    await keyed.close();
    expect(json.paths['/v1/clusters'].get.security).toEqual([{ key: [] }]);
    expect(json.paths['/v1/clusters'].get.responses[401]).toBeDefined();
    expect(json.paths['/healthz'].get.security).toBeUndefined();
    expect(paths['/v1/clusters']!['get']!.security).toBeUndefined();
  });

  it.each(BAD_REQUESTS)('describes the refusal of $name', async ({ method, url, body, headers }) => {
    expectDescribed(method, url, await api.call(method, url, body, headers));
  });

  it('describes what is answered through a life of everything', async () => {
    const idempotent = { 'idempotency-key': 'once' };
    const lines = { 'content-type': 'application/x-ndjson', 'idempotency-key': 'lines' };
    const job = { key: 'a', schedule: CRON, payload: [1], labels: { a: 'b' }, spreadMs: 5, calendars: ['weekend'] };
    const delayed = {
      key: 'b',
      schedule: { kind: 'delay', delayMs: 60_000 },
      description: 'd',
      misfire: { mode: 'all' },
    };
    const requests: [method: string, url: string, body?: unknown, headers?: Record<string, string>][] = [
      ['POST', JOBS, job],
      ['POST', JOBS, job],
      ['PUT', jobUrl('b'), delayed],
      ['PUT', jobUrl('b'), { ...delayed, key: undefined, maxCount: 1 }],
      ['GET', jobUrl('a')],
      ['PATCH', jobUrl('a'), { start: '2027-01-01T00:00:00Z', maxCount: 3 }],
      ['POST', `${jobUrl('a')}/fire`, undefined, idempotent],
      ['POST', `${jobUrl('a')}/pause`],
      ['POST', `${jobUrl('a')}/resume`],
      ['GET', `${JOBS}?limit=1`],
      ['GET', JOBS],
      ['POST', `${jobUrl('b')}/terminate`],
      ['POST', `${jobUrl('b')}/resume`],
      ['PATCH', jobUrl('a'), {}, { 'if-match': '"99"' }],
      ['DELETE', '/v1/calendars/weekend'],
      ['POST', `${JOBS}:bulk`, [{ key: 'c', schedule: CRON }, { key: 'a' }, 5], idempotent],
      ['POST', `${JOBS}:bulk`, `${JSON.stringify({ key: 'd', schedule: CRON })}\n{}\n`, lines],
      ['GET', '/v1/clusters/default/operations/lines'],
      ['GET', '/v1/clusters/default/operations'],
      ['DELETE', jobUrl('a')],
      ['DELETE', jobUrl('a')],
      ['POST', '/v1/preview', { schedule: CRON }],
      ['POST', '/v1/clusters', { name: 'other', partitions: 1 }],
      ['GET', '/v1/clusters'],
      ['GET', '/v1/clusters/default'],
      ['GET', '/v1/calendars'],
      ['GET', '/v1/calendars/weekend'],
      ['PUT', '/v1/calendars/weekend', WEEKEND],
      ['PUT', '/v1/calendars/new', { yearly: ['12-25'] }],
      ['DELETE', '/v1/calendars/new'],
      ['GET', '/v1/installation'],
      ['GET', '/healthz'],
      ['GET', '/readyz'],
      ['GET', '/metrics'],
      ['POST', '/v1/clusters/default/triggers/commit', { session: 'none' }],
    ];
    for (const [method, url, body, headers] of requests) {
      expectDescribed(method, url, await api.call(method, url, body, headers));
    }
  });

  it('describes what is accepted and not applied in time', async () => {
    const slow = await openApi({ applier: false, answerWaitMs: 20 });
    for (const [method, url, body] of [
      ['POST', JOBS, { key: 'a', schedule: CRON }],
      ['PUT', jobUrl('a'), { schedule: CRON }],
      ['DELETE', jobUrl('a'), undefined],
      ['POST', `${jobUrl('a')}/pause`, undefined],
    ] as const) {
      const answer = await slow.call(method, url, body);
      expect(answer.status).toBe(202);
      expectDescribed(method, url, answer);
    }
    await slow.close();
  });
});
