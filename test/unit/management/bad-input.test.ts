import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiUnderTest, jobUrl, openApi } from './api.ts';
import { BAD_REQUESTS, GOOD, WEEKEND } from './bad-input.table.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await openApi();
  await api.call('PUT', jobUrl('there'), GOOD);
  await api.call('PUT', '/v1/calendars/weekend', WEEKEND);
});
afterAll(() => api.close());

describe('bad input', () => {
  it('the table has at least 100 requests, each with a name of its own', () => {
    expect(BAD_REQUESTS.length).toBeGreaterThanOrEqual(100);
    expect(new Set(BAD_REQUESTS.map(({ name }) => name)).size).toBe(BAD_REQUESTS.length);
  });

  it.each(BAD_REQUESTS)('$name', async ({ method, url, body, headers, status, code = 'request-invalid', field }) => {
    const before = await api.counts();
    const answer = await api.call(method, url, body, headers);
    expect({ status: answer.status, type: answer.headers['content-type'] }, answer.text).toEqual({
      status,
      type: 'application/problem+json',
    });
    expect(answer.json).toMatchObject({
      status,
      title: expect.any(String),
      detail: expect.any(String),
      type: `urn:carillon:error:${answer.json.code}`,
    });
    expect(code.split('|')).toContain(answer.json.code);
    expect(answer.json.field).toEqual(typeof field === 'string' ? field : expect.stringMatching(field));
    expect(answer.text).not.toMatch(/node_modules|\.ts:\d|at Object\./);
    expect(await api.counts()).toEqual(before);
  });

  it('the job that stood before is as it was', async () => {
    expect((await api.call('GET', jobUrl('there'))).json).toMatchObject({ version: 1, ...GOOD });
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});
