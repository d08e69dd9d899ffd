import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { JOB_FIELDS, READ_ONLY_FIELDS } from '../../../src/core/form/job-schema.ts';
import { zoneDataVersion } from '../../../src/core/schedule/zones/rules.ts';
import { adoptZoneData, firstStart } from '../../../src/management/first-start.ts';
import { type ApiUnderTest, CRON, JOBS, jobUrl, openApi } from './api.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

describe('logical clusters', () => {
  it('default is there from the first start', async () => {
    const { json } = await api.call('GET', '/v1/clusters/default');
    expect(json).toMatchObject({
      name: 'default',
      topic: 'carillon.triggers.default',
      partitions: 8,
      envelope: 'cloudevents',
      delivery: 'at-least-once',
      jobs: { enabled: 0 },
    });
  });

  it('a new one gets its topic', async () => {
    const made = await api.call('POST', '/v1/clusters', {
      name: 'team',
      partitions: 3,
      envelope: 'compact',
      topic: 'team.due',
    });
    expect(made).toMatchObject({
      status: 201,
      headers: { location: '/v1/clusters/team' },
      json: { topic: 'team.due', partitions: 3 },
    });
    expect(await api.stores.bus.partitions('team.due')).toBe(3);
    const { json } = await api.call('GET', '/v1/clusters');
    expect(json.clusters.map(({ name }: { name: string }) => name).sort()).toEqual(['default', 'team']);
  });

  it('a delivery that is not available here is refused by its code', async () => {
    const { status, json } = await api.call('POST', '/v1/clusters', { name: 'once', delivery: 'exactly-once' });
    expect({ status, code: json.code, field: json.field }).toEqual({
      status: 400,
      code: 'delivery-unsupported',
      field: 'delivery',
    });
    expect((await api.call('GET', '/v1/clusters/once')).status).toBe(404);
  });
});

describe('exclusion calendars', () => {
  const weekend = { zone: 'Europe/Paris', weekdays: ['sat', 'sun'] };

  it('a change of one times its jobs anew; one in use cannot be deleted', async () => {
    const url = '/v1/calendars/quiet%20days';
    expect(await api.call('PUT', url, weekend)).toMatchObject({
      status: 201,
      headers: { etag: '"1"' },
      json: { name: 'quiet days', version: 1, definition: weekend },
    });
    await api.call('PUT', jobUrl('calm'), { schedule: CRON, calendars: ['quiet days'] });
    await api.call('PUT', jobUrl('other'), { schedule: CRON });
    const changed = await api.call('PUT', url, { weekdays: ['mon'] });
    expect(changed).toMatchObject({ status: 200, headers: { etag: '"2"' }, json: { recomputed: 1 } });
    while ((await api.call('GET', jobUrl('calm'))).json.version !== 2) await delay(2);
    expect((await api.call('GET', jobUrl('other'))).json.version).toBe(1);
    // The same again tells the jobs again, and they know it already.
    expect((await api.call('PUT', url, { weekdays: ['mon'] })).json).toMatchObject({ version: 2, recomputed: 1 });
    await api.call('PATCH', jobUrl('other'), { payload: 1 });
    expect((await api.call('GET', jobUrl('calm'))).json.version).toBe(2);

    expect(await api.call('DELETE', url)).toMatchObject({ status: 409, json: { code: 'calendar-in-use' } });
    await api.call('PATCH', jobUrl('calm'), { calendars: null });
    expect((await api.call('DELETE', url, undefined, { 'if-match': '"1"' })).status).toBe(412);
    expect((await api.call('DELETE', url)).status).toBe(204);
    expect((await api.call('GET', url)).status).toBe(404);
    expect((await api.call('GET', '/v1/calendars')).json).toEqual({ calendars: [] });
  });
});

describe('preview', () => {
  const preview = (body: object) => api.call('POST', '/v1/preview', body);

  it('O-CR-20, O-CR-14: answers the next occurrences strictly after an instant', async () => {
    const { json } = await preview({
      schedule: { kind: 'cron', expression: '@Daily', zone: 'Asia/Kathmandu' },
      after: '2027-01-01T00:00:00Z',
      count: 3,
    });
    expect(json.occurrences.map(({ nominal }: { nominal: string }) => nominal)).toEqual([
      '2027-01-01T18:15:00Z',
      '2027-01-02T18:15:00Z',
      '2027-01-03T18:15:00Z',
    ]);
    const leap = await preview({
      schedule: { kind: 'cron', expression: '0 0 29 2 *' },
      after: '2027-02-01T00:00:00Z',
      count: 1,
    });
    expect(leap.json.occurrences[0].nominal).toBe('2028-02-29T00:00:00Z');
  });

  it('a rate without an anchor begins one period later; a spread shows the effective times', async () => {
    const { json } = await preview({
      schedule: { kind: 'rate', everyMs: 60_000 },
      after: '2027-01-01T00:00:00Z',
      count: 1_000,
      key: 'k',
      spreadMs: 30_000,
    });
    expect(json.occurrences).toHaveLength(1_000);
    expect(json.occurrences[0].nominal).toBe('2027-01-01T00:01:00Z');
    const offset = Date.parse(json.occurrences[0].effective) - Date.parse(json.occurrences[0].nominal);
    expect(offset).toBeGreaterThanOrEqual(0);
    expect(offset).toBeLessThan(30_000);
  });
});

describe('what the API says of itself', () => {
  it('OpenAPI has every route, and every field of a job once', async () => {
    const { json } = await api.call('GET', '/openapi.json');
    for (const path of [
      JOBS.replace('default', '{cluster}'),
      '/v1/preview',
      '/v1/calendars/{name}',
      '/v1/clusters/{cluster}/operations/{key}',
      '/v1/installation',
    ]) {
      expect(Object.keys(json.paths)).toContain(path);
    }
    const body = json.paths['/v1/clusters/{cluster}/jobs'].post.requestBody.content['application/json'].schema;
    expect(Object.keys(body.properties)).toEqual(Object.keys(JOB_FIELDS));
    expect(Object.keys(json.paths['/v1/clusters/{cluster}/jobs'])).toEqual(['post', 'get']);
  });

  it('an answered job has the fields of the form and the read-only ones, and no other', async () => {
    const all = {
      schedule: CRON,
      start: '2026-01-01T00:00:00Z',
      end: '2099-01-01T00:00:00Z',
      maxCount: 5,
      spreadMs: 10,
      description: 'x',
      labels: { a: 'b' },
    };
    const { json } = await api.call('PUT', jobUrl('all'), all);
    const known = [...Object.keys(JOB_FIELDS), ...READ_ONLY_FIELDS, 'result'];
    expect(Object.keys(json).filter((field) => !known.includes(field))).toEqual([]);
  });

  it('405 names what a route takes; HEAD and OPTIONS are no surprise', async () => {
    const { status, headers } = await api.call('PUT', JOBS);
    expect({ status, allow: headers['allow'] }).toEqual({ status: 405, allow: 'GET, HEAD, POST' });
    expect((await api.call('HEAD', jobUrl('all'))).status).toBe(200);
    expect((await api.call('OPTIONS', JOBS)).status).toBe(405);
  });

  it('the installation shows its zone data', async () => {
    expect((await api.call('GET', '/v1/installation')).json).toMatchObject({
      mode: 'embedded',
      zoneDataVersion,
      dataVersion: 1,
      deliveries: ['at-least-once'],
    });
  });

  it('is not ready while a condition fails, and does not tell why to everybody', async () => {
    const failing = await openApi({
      options: {
        readiness: {
          redis: async () => {
            throw new Error('redis://user:secret@host is down');
          },
        },
      },
    });
    const answer = await failing.call('GET', '/readyz');
    expect(answer).toMatchObject({ status: 503, json: { checks: { redis: 'failed', store: 'ok' } } });
    expect(answer.text).not.toContain('secret');
    await failing.close();
  });
});

describe('first start', () => {
  it('a second start finds what the first one made, whatever it asks for', async () => {
    const asked = { slotsPerSet: 99, lanesPerSlot: 99, changesPartitions: 99, deliveries: ['exactly-once'] } as const;
    expect(await firstStart(api.stores, api.deps.clock, asked)).toEqual(api.deps.installation);
    expect(await api.stores.catalog.cluster('default')).toMatchObject({ delivery: 'at-least-once' });
  });

  it('data of a newer program are refused with the mend', async () => {
    const { catalog } = api.stores;
    const newer = {
      ...api.stores,
      catalog: { ...catalog, installation: async () => ({ ...api.deps.installation, dataVersion: 2 }) },
    };
    const asked = { slotsPerSet: 2, lanesPerSlot: 2, changesPartitions: 2, deliveries: ['at-least-once'] } as const;
    await expect(firstStart(newer, api.deps.clock, asked)).rejects.toThrow('start the newer program');
  });

  it('with other zone data the jobs of the zones that differ are timed anew, others are left', async () => {
    await api.call('PUT', jobUrl('berlin'), { schedule: { ...CRON, zone: 'Europe/Berlin' } });
    await api.call('PUT', jobUrl('lima'), { schedule: { ...CRON, zone: 'America/Lima' } });
    const { installation } = api.deps;
    const old = {
      ...installation,
      zoneDataVersion: '1999a',
      zoneFingerprints: { ...installation.zoneFingerprints, 'Europe/Berlin': 'other' },
    };
    await api.stores.catalog.setZoneData(zoneDataVersion, '1999a', old.zoneFingerprints);
    expect(await adoptZoneData(api.deps, old)).toEqual({ zones: ['Europe/Berlin'], jobs: 1 });
    while ((await api.call('GET', jobUrl('berlin'))).json.version !== 2) await delay(2);
    expect((await api.call('GET', jobUrl('lima'))).json.version).toBe(1);
    expect(await api.stores.catalog.installation(old)).toMatchObject({ zoneDataVersion });
  });
});
