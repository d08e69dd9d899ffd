import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiUnderTest, CRON, JOBS, jobUrl, openApi } from './api.ts';

let api: ApiUnderTest;
let origin: string;
beforeAll(async () => {
  api = await openApi();
  origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(() => api.close());

const NDJSON = { 'content-type': 'application/x-ndjson' };
const line = (key: string, more: object = {}) => JSON.stringify({ key, schedule: CRON, ...more });
const lines = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => line(`${prefix}${i}`));

function upload(key: string, text: string) {
  return api.call('POST', `${JOBS}:bulk`, text, { ...NDJSON, 'idempotency-key': key });
}

/** The operation when every line is counted. */
async function done(key: string) {
  for (;;) {
    const { json } = await api.call('GET', `/v1/clusters/default/operations/${key}`);
    if (json.state === 'done') return json;
    await delay(5);
  }
}

describe('O-AP-06: an array of jobs', () => {
  const items = () => {
    const all: { key: string; schedule: object }[] = Array.from({ length: 1_000 }, (_, i) => ({
      key: `o${i + 1}`,
      schedule: CRON,
    }));
    all[9]!.key = 'o3';
    all[499]!.schedule = { kind: 'cron', expression: '61 * * * *' };
    return all;
  };

  it('answers one result per item in order; a retry changes nothing', async () => {
    await api.call('PUT', jobUrl('o700'), { schedule: { kind: 'rate', everyMs: 60_000 } });
    await api.call('PUT', jobUrl('o900'), { schedule: CRON });
    const before = await api.counts();
    const first = await api.call('POST', `${JOBS}:bulk`, items(), { 'idempotency-key': 'array-1' });
    expect(first.status).toBe(200);
    expect(first.json).toHaveLength(1_000);
    expect(first.json[0]).toEqual({ key: 'o1', result: 'created', version: 1 });
    expect(first.json[9]).toMatchObject({ key: 'o3', result: 'error', code: 'line-repeated', field: '[9].key' });
    expect(first.json[499]).toMatchObject({
      key: 'o500',
      result: 'error',
      code: 'schedule-invalid',
      field: '[499].schedule.expression',
    });
    expect(first.json[699]).toEqual({ key: 'o700', result: 'updated', version: 2 });
    expect(first.json[899]).toEqual({ key: 'o900', result: 'unchanged', version: 1 });
    const after = await api.counts();
    expect(after.jobs).toBe(before.jobs + 996);

    const again = await api.call('POST', `${JOBS}:bulk`, items(), { 'idempotency-key': 'array-1' });
    const results = again.json.map(({ result }: { result: string }) => result);
    expect(results.filter((one: string) => one === 'unchanged')).toHaveLength(998);
    expect(await api.counts()).toMatchObject({ jobs: after.jobs, members: after.members });
    expect((await api.call('GET', jobUrl('o700'))).json.version).toBe(2);
    const operation = await done('array-1');
    expect(operation.counts).toEqual({ created: 996, updated: 1, unchanged: 1, failed: 2 });
  });

  it('the same request id with other content is 409; too many are 413; none is an empty list', async () => {
    await api.call('POST', `${JOBS}:bulk`, [{ key: 'q', schedule: CRON }], { 'idempotency-key': 'array-2' });
    const other = await api.call('POST', `${JOBS}:bulk`, [{ key: 'r', schedule: CRON }], {
      'idempotency-key': 'array-2',
    });
    expect(other).toMatchObject({ status: 409, json: { code: 'operation-conflict' } });
    const many = await api.call('POST', `${JOBS}:bulk`, `[${Array.from({ length: 100_001 }, () => '{}').join(',')}]`);
    expect(many).toMatchObject({ status: 413, json: { code: 'request-too-large' } });
    expect(await api.call('POST', `${JOBS}:bulk`, [])).toMatchObject({ status: 200, json: [] });
  });
});

describe('a stream of lines', () => {
  it('is accepted with 202 when every line is in the topic, and counts results and errors per line', async () => {
    const text = [
      ...lines('s', 2_500),
      '{',
      line('s1', { schedule: { kind: 'rate', everyMs: 0 } }),
      line('s2'),
      '',
      line('s3', { payload: 2 }),
    ].join('\n');
    const { status, headers, json } = await upload('stream-1', text);
    expect({ status, location: headers['location'] }).toEqual({
      status: 202,
      location: '/v1/clusters/default/operations/stream-1',
    });
    expect(json).toMatchObject({ lines: 2_505 });
    const operation = await done('stream-1');
    expect(operation.counts).toEqual({ created: 2_500, updated: 1, unchanged: 1, failed: 3 });
    expect(operation.errors).toMatchObject([
      { line: 2_501, code: 'request-malformed' },
      { line: 2_502, jobKey: 's1', code: 'request-invalid', field: 'schedule.everyMs' },
      { line: 2_504, code: 'request-malformed' },
    ]);
    expect((await api.call('GET', jobUrl('s2499'))).status).toBe(200);
  });

  it('a repeat with the same key sends nothing again and answers the same', async () => {
    const text = lines('t', 1_500).join('\n');
    await upload('stream-2', text);
    await done('stream-2');
    const before = await api.counts();
    expect((await upload('stream-2', `${text}\n`)).status).toBe(202);
    expect(await api.counts()).toEqual(before);
    expect((await upload('stream-2', text.replace('"t7"', '"t_"'))).json).toMatchObject({
      status: 409,
      code: 'operation-conflict',
    });
    expect((await upload('stream-2', lines('t', 1_499).join('\n'))).status).toBe(409);
    expect((await upload('stream-2', lines('t', 1_501).join('\n'))).status).toBe(409);
    expect(await api.counts()).toEqual(before);
  });

  it('an upload that broke off goes on where it stood', async () => {
    const all = lines('u', 4_000);
    const operation = '/v1/clusters/default/operations/stream-3';
    const broken = Readable.from(
      (async function* () {
        yield `${all.slice(0, 3_700).join('\n')}\n{"half`;
        while (!((await api.call('GET', operation)).json.lines >= 1_000)) await delay(5);
        throw new Error('the client went away');
      })(),
    );
    const request = {
      method: 'POST',
      headers: { ...NDJSON, 'idempotency-key': 'stream-3' },
      body: Readable.toWeb(broken) as ReadableStream,
      duplex: 'half',
    };
    await expect(fetch(`${origin}${JOBS}:bulk`, request as RequestInit)).rejects.toThrow();
    // The server ends the broken upload by itself; until then the twin is refused.
    for (;;) {
      const before = await api.counts();
      const { json: stood } = await api.call('GET', operation);
      const again = await upload('stream-3', all.join('\n'));
      if (again.status === 409) {
        await delay(5);
        continue;
      }
      expect(stood.state).toBe('receiving');
      expect(stood.lines).toBeLessThanOrEqual(3_700);
      expect(again).toMatchObject({ status: 202, json: { lines: 4_000 } });
      expect((await api.counts()).changes - before.changes).toBe(4_000 - stood.lines);
      break;
    }
    expect((await done('stream-3')).counts).toEqual({ created: 4_000, updated: 0, unchanged: 0, failed: 0 });
  });

  it('shows its progress while it is being received, and reads no faster than lines go into the topic', async () => {
    const text = `${lines('w', 1_000).join('\n')}\n`;
    let sent = 0;
    let go: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    const send = api.changes.send.bind(api.changes);
    api.changes.send = async (messages) => {
      if (sent > 0) await held;
      return send(messages);
    };
    const source = Readable.from(
      (async function* () {
        for (let i = 0; i < 200; i++) {
          sent += 1;
          yield text;
        }
      })(),
    );
    const request = fetch(`${origin}${JOBS}:bulk`, {
      method: 'POST',
      headers: { ...NDJSON, 'idempotency-key': 'stream-4' },
      body: Readable.toWeb(source) as ReadableStream,
      duplex: 'half',
    } as RequestInit);
    // The stream is 13 MB; what is taken before the first lines are in the topic are buffers of sockets and a few blocks.
    let last = -1;
    while (last !== sent) {
      last = sent;
      await delay(150);
    }
    expect(sent).toBeLessThan(200);
    expect((await api.call('GET', '/v1/clusters/default/operations/stream-4')).json).toMatchObject({
      state: 'receiving',
    });
    const twin = await upload('stream-4', text);
    expect(twin).toMatchObject({ status: 409, json: { code: 'operation-conflict' } });
    go();
    const response = await request;
    expect(response.status).toBe(202);
    api.changes.send = send;
    expect((await response.json()) as object).toMatchObject({ lines: 200_000 });
    const end = await done('stream-4');
    expect(end.counts).toMatchObject({ created: 1_000, unchanged: 199_000 });
  }, 120_000);

  it.each([1, 70_000, 3 * 1024 * 1024])('a line that is %d bytes too long is an error of its own', async (more) => {
    const text = `${lines('v', 3).join('\n')}\n${'x'.repeat(1024 * 1024 + more)}\n${line('v3')}\n`;
    const key = `stream-5-${more}`;
    expect(await upload(key, text)).toMatchObject({ status: 202, json: { lines: 5 } });
    const { counts, errors } = await done(key);
    expect(counts.created + counts.unchanged).toBe(4);
    expect(errors).toEqual([expect.objectContaining({ line: 4, code: 'request-too-large' })]);
    // A repeat knows its lines, the long one included.
    expect(await upload(key, text)).toMatchObject({ status: 202, json: { lines: 5 } });
    expect(await upload(key, text.replace('xx', 'yy'))).toMatchObject({ status: 409 });
  });

  it('when the bus fails it is 503 with the lines that are taken, and a repeat counts each line once', async () => {
    const text = lines('y', 3_000).join('\n');
    const send = api.changes.send.bind(api.changes);
    let calls = 0;
    api.changes.send = async (messages) => {
      calls += 1;
      await send(messages);
      // The second send arrived and nobody was told so.
      if (calls === 2) throw new Error('no answer');
    };
    const refused = await upload('stream-6', text);
    api.changes.send = send;
    expect(refused).toMatchObject({ status: 503, json: { code: 'unavailable' } });
    expect((await upload('stream-6', text)).status).toBe(202);
    expect((await done('stream-6')).counts).toEqual({ created: 3_000, updated: 0, unchanged: 0, failed: 0 });
  });

  it('an empty stream is an operation of no lines', async () => {
    const response = await fetch(`${origin}${JOBS}:bulk`, {
      method: 'POST',
      headers: { ...NDJSON, 'idempotency-key': 'empty' },
      body: '',
    });
    expect(response.status).toBe(202);
    expect(await response.json()).toMatchObject({ state: 'done', lines: 0 });
    const list = await api.call('GET', '/v1/clusters/default/operations?limit=1000');
    expect(list.json.operations.map(({ key }: { key: string }) => key)).toContain('empty');
  });

  it('O-SC-05: a line with __proto__ keeps it in the payload and is refused in settings', async () => {
    const text = `${line('proto').slice(0, -1)},"payload":{"__proto__":{"polluted":1}}}\n${line('proto2').slice(0, -1)},"__proto__":{"polluted":1}}`;
    await upload('stream-7', text);
    expect(await done('stream-7')).toMatchObject({
      counts: { created: 1, failed: 1 },
      errors: [{ line: 2, field: '__proto__' }],
    });
    expect((await api.stores.jobs.get('default', 'proto'))!.payload).toBe('{"__proto__":{"polluted":1}}');
  });

  it('topics get one change a line', async () => {
    const before = await api.counts();
    await upload('stream-8', lines('z', 1_000).join('\n'));
    const after = await api.counts();
    expect(after.changes - before.changes).toBe(1_000);
    // Those of one partition go together.
    expect(after.offsets - before.offsets).toBeLessThan(100);
  });
});
