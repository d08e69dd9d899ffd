import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/core/limits.ts';
import { type ApiUnderTest, CRON, JOBS, jobUrl, openApi } from './api.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

describe('one job', () => {
  it('is created with 201, Location and ETag, and is readable at once', async () => {
    const created = await api.call('POST', JOBS, {
      key: 'first',
      schedule: CRON,
      payload: { a: 1 },
      labels: { team: 'x' },
    });
    expect(created.status).toBe(201);
    expect(created.headers).toMatchObject({ location: jobUrl('first'), etag: '"1"' });
    expect(created.json).toMatchObject({
      result: 'created',
      key: 'first',
      version: 1,
      state: 'enabled',
      payload: { a: 1 },
    });
    const read = await api.call('GET', jobUrl('first'));
    expect(read.status).toBe(200);
    const { result: _, ...job } = created.json;
    expect(read.json).toEqual(job);
    expect(Date.parse(read.json.nextFireAt)).toBeGreaterThan(Date.now());
  });

  it('is the same again: 200 unchanged; another definition under its key is 409', async () => {
    const form = { key: 'again', schedule: { kind: 'rate', everyMs: 5_000 } };
    expect((await api.call('POST', JOBS, form)).status).toBe(201);
    expect((await api.call('POST', JOBS, form)).json).toMatchObject({ result: 'unchanged', version: 1 });
    const other = await api.call('POST', JOBS, { ...form, payload: 1 });
    expect(other).toMatchObject({ status: 409, json: { code: 'job-exists' } });
  });

  it('O-DL-04: 20 clients that save it 50 times each leave one job of version 1 with one member', async () => {
    const { members } = await api.counts();
    const form = { schedule: { kind: 'rate', everyMs: 5_000 } };
    const first = await api.call('PUT', jobUrl('upsert'), form);
    const anchor = first.json.schedule.anchor;
    for (let round = 0; round < 50; round++) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => api.call('PUT', jobUrl('upsert'), form)));
      for (const { status, json } of answers)
        expect({ status, ...json }).toMatchObject({ status: 200, result: 'unchanged' });
    }
    const { json } = await api.call('GET', jobUrl('upsert'));
    expect(json).toMatchObject({ version: 1, schedule: { anchor } });
    expect((await api.counts()).members).toBe(members + 1);
  });

  it('goes through all its states', async () => {
    await api.call('PUT', jobUrl('states'), { schedule: CRON });
    const step = async (action: string) => (await api.call('POST', `${jobUrl('states')}/${action}`)).json;
    expect(await step('pause')).toMatchObject({ state: 'paused', version: 2, nextFireAt: null });
    expect(await step('pause')).toMatchObject({ result: 'unchanged', version: 2 });
    expect(await step('resume')).toMatchObject({ state: 'enabled', version: 3 });
    expect(await step('terminate')).toMatchObject({ state: 'terminated', version: 4, nextFireAt: null });
    expect(await step('resume')).toMatchObject({ code: 'state-conflict', status: 409 });
    expect((await api.call('PUT', jobUrl('states'), { schedule: CRON, payload: 1 })).status).toBe(409);
    expect((await api.call('DELETE', jobUrl('states'))).status).toBe(204);
    expect((await api.call('GET', jobUrl('states'))).json).toMatchObject({ code: 'job-not-found', field: 'key' });
    expect((await api.call('DELETE', jobUrl('states'))).status).toBe(404);
  });

  it('O-DL-05: deleted and made again it is a new job whose next fire is in the future', async () => {
    const form = { schedule: { kind: 'rate', everyMs: 180_000 } };
    const first = (await api.call('PUT', jobUrl('phoenix'), form)).json;
    for (let round = 0; round < 2; round++) {
      expect((await api.call('DELETE', jobUrl('phoenix'))).status).toBe(204);
      const again = await api.call('PUT', jobUrl('phoenix'), form);
      expect(again).toMatchObject({ status: 201, json: { version: 1, state: 'enabled' } });
      expect([again.json.shard, again.json.number]).not.toEqual([first.shard, first.number]);
      expect(Date.parse(again.json.nextFireAt)).toBeGreaterThan(Date.now());
    }
  });

  it('changes only in the version that If-Match names', async () => {
    await api.call('PUT', jobUrl('etag'), { schedule: CRON });
    const wrong = await api.call('PATCH', jobUrl('etag'), { payload: 2 }, { 'if-match': '"7"' });
    expect(wrong).toMatchObject({ status: 412, json: { code: 'version-mismatch' } });
    const right = await api.call('PATCH', jobUrl('etag'), { payload: 2 }, { 'if-match': '"1"' });
    expect(right).toMatchObject({ status: 200, headers: { etag: '"2"' } });
    const absent = await api.call('PUT', jobUrl('etag-none'), { schedule: CRON }, { 'if-match': '*' });
    expect(absent.status).toBe(404);
    const present = await api.call('PUT', jobUrl('etag'), { schedule: CRON }, { 'if-none-match': '*' });
    expect(present).toMatchObject({ status: 409, json: { code: 'job-exists' } });
  });

  it('fires by hand; a repeat with the same Idempotency-Key is the same run', async () => {
    const { json: job } = await api.call('PUT', jobUrl('hand'), { schedule: CRON });
    const once = await api.call('POST', `${jobUrl('hand')}/fire`, undefined, { 'idempotency-key': 'r-1' });
    expect(once).toMatchObject({ status: 200, json: { result: 'fired', version: 1 } });
    expect(once.json.id).toMatch(new RegExp(`^${job.shard}-${job.number}-[0-9]+-fr-1$`));
    await api.call('PATCH', jobUrl('hand'), { payload: 2 });
    const again = await api.call('POST', `${jobUrl('hand')}/fire`, undefined, { 'idempotency-key': 'r-1' });
    expect(again.json.id).toBe(once.json.id);
    const other = await api.call('POST', `${jobUrl('hand')}/fire`);
    expect(other.json.id).not.toBe(once.json.id);
    const { bus } = api.stores;
    const fast = (await bus.offsets('carillon.fast')).reduce((sum, { end }) => sum + end, 0);
    expect(fast).toBeGreaterThanOrEqual(2);
  });

  it('a form that was read may be written again', async () => {
    const form = {
      schedule: { kind: 'cron', expression: '0 9 * * 1-5', zone: 'Europe/Berlin', gap: 'skip', overlap: 'first' },
      start: '2026-01-01T00:00:00Z',
      end: '2099-01-01T00:00:00.5+01:00',
      maxCount: 40,
      spreadMs: 60_000,
      misfire: { mode: 'all', maxNumber: 3, maxAgeMs: 1_000, maxPerSecond: 2 },
      payload: [1],
      contentType: 'application/vnd.x+json; v=1',
      description: 'ünïcode',
      labels: { 'a/b': 'c' },
    };
    const { json, status } = await api.call('PUT', jobUrl('round'), form);
    expect(status).toBe(201);
    const {
      result,
      cluster,
      version,
      state,
      stateReason,
      nextFireAt,
      createdAt,
      updatedAt,
      shard,
      number,
      ...written
    } = json;
    const again = await api.call('PUT', jobUrl('round'), written);
    expect(again.json).toMatchObject({ result: 'unchanged', version: 1 });
    expect((await api.call('PUT', jobUrl('round'), form)).json).toMatchObject({ result: 'unchanged' });
  });

  it('a delay is counted from the request and shown as the time it came to', async () => {
    const { json } = await api.call('POST', JOBS, { key: 'later', schedule: { kind: 'delay', delayMs: 90_000 } });
    expect(json.schedule.kind).toBe('once');
    expect(Math.abs(Date.parse(json.schedule.at) - Date.now() - 90_000)).toBeLessThan(5_000);
    expect(json.nextFireAt).toBe(json.schedule.at);
  });

  it('a delay of 0 is at once, by all ways in', async () => {
    const schedule = { kind: 'delay', delayMs: 0 };
    const posted = await api.call('POST', JOBS, { key: 'at-once/post', schedule });
    expect(posted).toMatchObject({ status: 201, json: { state: 'enabled', schedule: { kind: 'once' } } });
    expect(await api.call('PUT', jobUrl('at-once/put'), { schedule })).toMatchObject({ status: 201 });
    await api.call('PUT', jobUrl('at-once/patch'), { schedule: { kind: 'rate', everyMs: 60_000 } });
    expect(await api.call('PATCH', jobUrl('at-once/patch'), { schedule })).toMatchObject({ status: 200 });
    const bulk = await api.call('POST', `${JOBS}:bulk`, [{ key: 'at-once/bulk', schedule }]);
    expect(bulk.json).toMatchObject([{ result: 'created' }]);
  });

  it('a one-shot that has passed: refused for a new job, unchanged for the one that had it', async () => {
    const at = new Date(Date.now() - 60_000).toISOString();
    const refused = await api.call('POST', JOBS, { key: 'past', schedule: { kind: 'once', at } });
    expect(refused).toMatchObject({ status: 400, json: { code: 'schedule-impossible', field: 'schedule.at' } });
    const future = { schedule: { kind: 'once', at: '2099-01-01T00:00:00Z' } };
    const { json } = await api.call('PUT', jobUrl('was'), future);
    await api.stores.jobs.finish([{ shard: json.shard, number: json.number, version: 1 }], Date.now());
    expect((await api.call('PUT', jobUrl('was'), future)).json).toMatchObject({
      result: 'unchanged',
      state: 'finished',
    });
  });
});

describe('O-SC-03: keys of every kind', () => {
  const keys = [
    'a:b',
    'a:b:c:d',
    'user/42',
    'user/42/clean',
    '50%',
    'a b',
    'a+b',
    'q?x=1#y',
    'α/漢',
    '📦',
    '{tag}',
    '*',
    '123',
    'A',
    'a',
    '  lead',
    '...',
    '.hidden',
    'jobs:bulk',
    'a;b',
    'a\\b',
    '%2F',
    'x'.repeat(255),
    '漢'.repeat(85),
  ];

  it.each(keys)('%s works in every call and touches no other job', async (key) => {
    const before = (await api.counts()).jobs;
    expect((await api.call('POST', JOBS, { key, schedule: CRON })).status).toBe(201);
    const url = jobUrl(key);
    expect((await api.call('GET', url)).json.key).toBe(key);
    expect((await api.call('PUT', url, { schedule: CRON, description: key.slice(0, 20) })).json).toMatchObject({
      result: 'updated',
      key,
    });
    expect((await api.call('PATCH', url, { payload: key })).json).toMatchObject({ payload: key });
    for (const action of ['pause', 'resume', 'fire'])
      expect((await api.call('POST', `${url}/${action}`)).json).toMatchObject({ key });
    const list = await api.call('GET', `${JOBS}?prefix=${encodeURIComponent(key)}`);
    expect(list.json.jobs.map((job: { key: string }) => job.key)).toContain(key);
    expect((await api.counts()).jobs).toBe(before + 1);
    expect((await api.call('DELETE', url)).status).toBe(204);
    expect((await api.counts()).jobs).toBe(before);
  });

  it.each([
    '.',
    '..',
    '',
    'x'.repeat(256),
    'x'.repeat(5_000),
    '漢'.repeat(86),
    'a\u0000b',
    'a\r\nX-Evil: 1',
    'tab\t',
    '\u007f',
    '\u0085',
  ])('%j is refused at creation with a clear 400', async (key) => {
    const { status, json } = await api.call('POST', JOBS, { key, schedule: CRON });
    expect({ status, field: json.field }).toEqual({ status: 400, field: 'key' });
  });

  it('the limit counts bytes, and a key that is too long is 400 in a URL too', async () => {
    const { json, status } = await api.call('GET', jobUrl('x'.repeat(5_000)));
    expect(status).toBe(400);
    expect(json.detail).toContain('255 bytes');
  });

  it('"a:b" of one cluster is not "b" of another, and "A" is not "a"', async () => {
    await api.call('POST', '/v1/clusters', { name: 'other' });
    await api.call('PUT', '/v1/clusters/other/jobs/same', { schedule: CRON });
    expect((await api.call('GET', jobUrl('same'))).status).toBe(404);
    await api.call('PUT', jobUrl('Case'), { schedule: CRON });
    expect((await api.call('GET', jobUrl('case'))).status).toBe(404);
  });
});

describe('payloads and fields', () => {
  const payload =
    '{ "__proto__" : {"polluted":1},"constructor":{"prototype":{"p2":1}}, "a":1.0, "n":1e2, "d":1, "d":2,\n "s":"x\\u0000y \\ud800 \\u00e9 é" }';

  it('O-SC-04, O-SC-05: a payload keeps its text, byte for byte, on every way in', async () => {
    const schedule = JSON.stringify(CRON);
    await api.call('POST', JOBS, `{"key":"raw","schedule":${schedule},"payload":${payload}}`);
    expect((await api.stores.jobs.get('default', 'raw'))!.payload).toBe(payload);
    expect((await api.call('GET', jobUrl('raw'))).text).toContain(`"payload":${payload}`);
    await api.call('PATCH', jobUrl('raw'), `{"payload":${payload.replace('1.0', '2.0')}}`);
    expect((await api.stores.jobs.get('default', 'raw'))!.payload).toBe(payload.replace('1.0', '2.0'));
    await api.call('POST', `${JOBS}:bulk`, `[{"key":"raw","schedule":${schedule},"payload":${payload}}]`);
    expect((await api.stores.jobs.get('default', 'raw'))!.payload).toBe(payload);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(({} as Record<string, unknown>)['p2']).toBeUndefined();
  });

  it('the largest payloads are taken, also when the job changes in a wheel, and what is larger is 413', async () => {
    const text = (chars: number) => `"${'x'.repeat(chars - 2)}"`;
    const form = (payload: string) => `{"schedule":{"kind":"rate","everyMs":100},"payload":${payload}}`;
    const limit = LIMITS.payloadBytes;
    // In a record the two quotes of the text are escaped and stand in quotes: six characters for two.
    expect((await api.call('PUT', jobUrl('large'), form(text(limit - 4)))).status).toBe(201);
    expect((await api.call('PUT', jobUrl('large'), form(text(limit - 5)))).status).toBe(200);
    expect(await api.call('PUT', jobUrl('large'), form(text(limit - 3)))).toMatchObject({
      status: 413,
      json: { field: 'payload' },
    });
    const escaped = `"${'\\\\'.repeat(limit / 4)}"`;
    expect(await api.call('PUT', jobUrl('large'), form(escaped))).toMatchObject({
      status: 413,
      json: { field: 'payload' },
    });
    expect((await api.call('DELETE', jobUrl('large'))).status).toBe(204);
  });

  it('O-SC-05: the same names in settings are unknown fields', async () => {
    for (const member of ['"__proto__":{"polluted":1}', '"constructor":{"prototype":{"p2":1}}']) {
      const made = await api.call(
        'POST',
        JOBS,
        `{"key":"p","schedule":{"kind":"cron","expression":"* * * * *",${member}}}`,
      );
      expect(made.status).toBe(400);
      const patched = await api.call('PATCH', jobUrl('raw'), `{${member}}`);
      expect(patched.status).toBe(400);
      const put = await api.call('PUT', jobUrl('p'), `{"schedule":${JSON.stringify(CRON)},"labels":{${member}}}`);
      expect(put.status).toBe(400);
    }
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('O-AP-05: every unknown and read-only field is listed, and nothing changes', async () => {
    await api.call('PUT', jobUrl('fields'), { schedule: CRON });
    const before = await api.counts();
    const refused = async (body: unknown) => {
      const { status, json } = await api.call('PATCH', jobUrl('fields'), body);
      expect(status).toBe(400);
      return (json.errors ?? [json]).map(({ field }: { field: string }) => field).sort();
    };
    expect(await refused({ shedule: '* * * * *' })).toEqual(['shedule']);
    expect(await refused({ cron: '* * * * *', crn: 'x' })).toEqual(['crn', 'cron']);
    expect(await refused({ id: 'other' })).toEqual(['id']);
    expect(await refused({ version: 1, nextFireAt: 0 })).toEqual(['nextFireAt', 'version']);
    expect(await refused({ schedule: { kind: 'cron', exprssion: 'x' } })).toEqual(['schedule.exprssion']);
    expect(await refused('{"payload":1,"payload":2}')).toEqual(['payload']);
    expect((await api.call('GET', jobUrl('fields'))).json.version).toBe(1);
    expect(await api.counts()).toEqual(before);
  });

  it('O-CR-20, O-CR-17: macros in any case, blanks around an expression', async () => {
    for (const expression of ['@Daily', '\t5 4  8\t10 * \n']) {
      const { status } = await api.call('PUT', jobUrl('macro'), { schedule: { kind: 'cron', expression } });
      expect(status).toBeLessThan(300);
    }
  });
});

describe('lists', () => {
  it('O-SC-02: pages hold every job once while others come and go', async () => {
    const cluster = '/v1/clusters/pages/jobs';
    await api.call('POST', '/v1/clusters', { name: 'pages' });
    const keys = Array.from({ length: 250 }, (_, i) => `k${String(i).padStart(3, '0')}`);
    await api.call(
      'POST',
      `${cluster}:bulk`,
      keys.map((key) => ({ key, schedule: CRON })),
    );
    const seen: string[] = [];
    let next: string | null = null;
    let page = 0;
    do {
      const { json } = await api.call('GET', `${cluster}?limit=30${next === null ? '' : `&cursor=${next}`}`);
      seen.push(...json.jobs.map((job: { key: string }) => job.key));
      next = json.next;
      await api.call('PUT', `${cluster}/new${page}`, { schedule: CRON });
      await api.call('PUT', `${cluster}/a${page}`, { schedule: CRON });
      page += 1;
    } while (next !== null);
    expect(seen.filter((key) => key.startsWith('k'))).toEqual(keys);
    expect(new Set(seen).size).toBe(seen.length);
  });

  it('filters by state and prefix', async () => {
    await api.call('PUT', jobUrl('filter-1'), { schedule: CRON, state: 'paused' });
    await api.call('PUT', jobUrl('filter-2'), { schedule: CRON });
    const { json } = await api.call('GET', `${JOBS}?prefix=filter&state=paused`);
    expect(json.jobs.map((job: { key: string }) => job.key)).toEqual(['filter-1']);
  });
});
