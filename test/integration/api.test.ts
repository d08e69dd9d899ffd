import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiUnderTest, CRON, JOBS, jobUrl, openApi } from '../unit/management/api.ts';
import { BAD_REQUESTS, GOOD, WEEKEND } from '../unit/management/bad-input.table.ts';
import { openCluster, openEmbedded, servers } from './real-stores.ts';

/** The same requests as over memory: every store gives the same answer. */
function onStores(name: string, open: () => ReturnType<typeof openCluster> | ReturnType<typeof openEmbedded>): void {
  describe(name, () => {
    let api: ApiUnderTest;
    beforeAll(async () => {
      api = await openApi({ stores: await open() });
      await api.call('PUT', jobUrl('there'), GOOD);
      await api.call('PUT', '/v1/calendars/weekend', WEEKEND);
    });
    afterAll(() => api.close());

    it('bad input: each request of the table is 4xx with code and field, and changes nothing', async () => {
      const before = await api.counts();
      for (const { name, method, url, body, headers, status, code = 'request-invalid', field } of BAD_REQUESTS) {
        const answer = await api.call(method, url, body, headers);
        expect({ name, status: answer.status }, answer.text).toEqual({ name, status });
        expect(code.split('|'), name).toContain(answer.json.code);
        expect(answer.json.field, name).toEqual(typeof field === 'string' ? field : expect.stringMatching(field));
      }
      expect(await api.counts()).toEqual(before);
      expect((await api.call('GET', jobUrl('there'))).json).toMatchObject({ version: 1, ...GOOD });
    });

    it('a job goes through its life, readable at once after each answer', async () => {
      const url = jobUrl('α/漢 50% {tag}');
      const payload = '{"__proto__":{"a":1}, "s":"x\\u0000y \\ud800", "n":1.0}';
      const form = `{"schedule":${JSON.stringify(CRON)},"labels":{"a.b/c":"d"},"payload":${payload}}`;
      expect(await api.call('PUT', url, form)).toMatchObject({ status: 201, headers: { etag: '"1"' } });
      expect((await api.call('GET', url)).text).toContain(`"payload":${payload}`);
      expect((await api.call('PUT', url, form)).json).toMatchObject({ result: 'unchanged' });
      expect((await api.call('POST', `${url}/pause`)).json).toMatchObject({ state: 'paused', version: 2 });
      expect((await api.call('POST', `${url}/resume`)).json).toMatchObject({ state: 'enabled', version: 3 });
      const fired = await api.call('POST', `${url}/fire`, undefined, { 'idempotency-key': 'once' });
      expect((await api.call('POST', `${url}/fire`, undefined, { 'idempotency-key': 'once' })).json.id).toBe(
        fired.json.id,
      );
      expect((await api.call('PATCH', url, { labels: null }, { 'if-match': '"3"' })).json).toMatchObject({
        version: 4,
      });
      expect((await api.call('DELETE', url)).status).toBe(204);
      expect((await api.call('GET', url)).status).toBe(404);
      expect((await api.call('PUT', url, { schedule: CRON })).json).toMatchObject({ result: 'created', version: 1 });
    });

    it('a stream of 5,000 lines is applied whole; its repeat changes nothing', async () => {
      const before = await api.counts();
      const lines = Array.from({ length: 5_000 }, (_, i) =>
        JSON.stringify({ key: `s${i}`, schedule: i % 2 === 0 ? CRON : { kind: 'rate', everyMs: 3_600_000 } }),
      );
      lines[41] = '{"key":"s41"}';
      const send = () =>
        api.call('POST', `${JOBS}:bulk`, lines.join('\n'), {
          'content-type': 'application/x-ndjson',
          'idempotency-key': 'big',
        });
      expect((await send()).status).toBe(202);
      let operation = (await api.call('GET', '/v1/clusters/default/operations/big')).json;
      while (operation.state !== 'done') {
        await delay(20);
        operation = (await api.call('GET', '/v1/clusters/default/operations/big')).json;
      }
      expect(operation).toMatchObject({
        lines: 5_000,
        counts: { created: 4_999, updated: 0, unchanged: 0, failed: 1 },
        errors: [{ line: 42, jobKey: 's41', field: 'schedule' }],
      });
      const after = await api.counts();
      expect(after).toMatchObject({ jobs: before.jobs + 4_999, members: before.members + 4_999 });
      expect((await send()).json).toMatchObject({ state: 'done', lines: 5_000 });
      expect(await api.counts()).toEqual(after);
    });
  });
}

onStores('the API over SQLite', openEmbedded);
describe.skipIf(servers === null)('on real servers', () =>
  onStores('the API over MongoDB, Redis and Kafka', openCluster),
);
