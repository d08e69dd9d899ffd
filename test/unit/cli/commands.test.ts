import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exported, pageOf } from '../../../src/cli/export.ts';
import { type RunningApi, startApi } from '../sdk/api.ts';
import { carillon, type Ran, start } from './run.ts';

const KEY = 'a-key-of-sixteen-characters';

describe('command line', () => {
  let api: RunningApi;
  let folder: string;
  const run = (args: string[], input = ''): Promise<Ran> =>
    carillon(args, { CARILLON_URL: api.url, CARILLON_API_KEY: KEY }, input);
  const done = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await run(args);
    expect(err).toBe('');
    expect(code).toBe(0);
    return out;
  };
  const json = async (...args: string[]): Promise<never> => JSON.parse(await done(...args, '--json')) as never;
  const file = (name: string, content: string): string => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'carillon-cli-'));
    api = await startApi({ apiKey: KEY });
  });
  afterAll(async () => {
    await api.close();
    rmSync(folder, { recursive: true });
  });

  test('a payload file that is not UTF-8 is refused, not changed', async () => {
    writeFileSync(join(folder, 'latin1.json'), Buffer.from('"caf\u00e9"', 'latin1'));
    const { code, err } = await run([
      'job',
      'add',
      'l1',
      '--every',
      '1m',
      '--payload-file',
      join(folder, 'latin1.json'),
    ]);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining('UTF-8') });
    expect(await api.stores.jobs.get('default', 'l1')).toBeNull();
  });

  test('a job from add to delete', async () => {
    const payload = '{"big": 12345678901234567890, "n": 1.0}';
    expect(
      await done(
        'job',
        'add',
        'a/b',
        '--cron',
        '0 6 * * *',
        '--zone',
        'Europe/Madrid',
        '--payload',
        payload,
        '--label',
        'team=x',
      ),
    ).toMatch(/^created a\/b, version 1, next 20\d\d-/);
    expect(await json('job', 'show', 'a/b')).toMatchObject({ key: 'a/b', state: 'enabled', labels: { team: 'x' } });
    const stored = await api.stores.jobs.get('default', 'a/b');
    expect(stored!.payload).toBe(payload);
    expect(await json('job', 'add', 'a/b', '--every', '1m', '--misfire', 'skip', '--replace')).toMatchObject({
      result: 'updated',
      schedule: { kind: 'rate', everyMs: 60_000 },
      misfire: { mode: 'skip' },
    });
    expect(await done('job', 'pause', 'a/b', '--if-version', '2')).toBe('updated a/b: paused, version 3\n');
    expect(await done('job', 'resume', 'a/b')).toContain('enabled');
    expect(await done('job', 'fire', 'a/b', '--request', 'r1')).toMatch(/^fired a\/b, execution 0-1-\d+-fr1\n$/);
    expect(await done('job', 'list')).toMatch(
      /^KEY +STATE +VERSION +NEXT +SCHEDULE\na\/b +enabled +\d+ +\S+ +every 60000 ms\n$/,
    );
    expect(await json('job', 'list', '--prefix', 'nothing')).toEqual([]);
    expect(await done('job', 'terminate', 'a/b')).toContain('terminated');
    expect(await json('job', 'list', '--state', 'terminated')).toMatchObject([{ key: 'a/b' }]);
    expect(await done('job', 'delete', 'a/b')).toBe('deleted a/b\n');
    expect(await done('job', 'list')).toBe('no jobs\n');
  });

  test('wrong usage and input is 2 and names what and how; what fails is 1', async () => {
    const cases: [string[], number, RegExp][] = [
      [[], 2, /^Usage/m],
      [['nope'], 2, /no command "nope"/],
      [['job'], 2, /one of add, list/],
      [['job', 'add'], 2, /KEY is missing/],
      [['job', 'show', 'a', 'b'], 2, /"b" is one word too many/],
      [['job', 'list', '--colour'], 2, /--colour/],
      [['job', 'list', '--limit', 'x'], 2, /^carillon job: --limit: /],
      [['job', 'list', '--state', 'sleepy'], 2, /^carillon job: state: /],
      [['job', 'add', 'k', '--cron', '61 * * * *'], 2, /^carillon job: --cron: .*61/],
      [['job', 'add', 'k', '--cron', '@daily', '--zone', 'Mars'], 2, /^carillon job: --zone: /],
      [['job', 'add', 'k', '--every', '5 parsecs'], 2, /^carillon job: --every: /],
      [['job', 'add', 'k', '--every', '1'], 2, /^carillon job: --every: /],
      [['job', 'add', 'k', '--at', 'tomorrow'], 2, /^carillon job: --at: /],
      [['job', 'add', 'k', '--at', '2027-01-01T00:00:00Z', '--zone', 'UTC'], 2, /--zone goes with --cron only/],
      [['job', 'add', 'k', '--cron', '@daily', '--every', '1s'], 2, /give one of --cron, --every/],
      [['job', 'add', 'k', '--cron', '@daily', '--payload', '{'], 2, /^carillon job: --payload: /],
      [['job', 'add', 'k', '--cron', '@daily', '--payload', '1,"key":"other"'], 2, /^carillon job: --payload: /],
      [['job', 'add', '..', '--cron', '@daily'], 2, /^carillon job: key: /],
      [['job', 'show', 'missing'], 1, /no such job/],
      [['job', 'list', '--cluster', 'missing'], 1, /no such logical cluster/],
      [['job', 'list', '--api-key', 'wrong'], 1, /--api-key or CARILLON_API_KEY/],
      [['job', 'list', '--url', 'not a url'], 2, /^carillon job: --url: /],
      [['tail', '--from', 'middle'], 2, /--from is end or first/],
      [['import', 'crontab', '/does/not/exist'], 2, /^carillon import: FILE: /],
      [['import', 'jobs', '/does/not/exist'], 2, /^carillon import: FILE: /],
      [['operation', 'show', 'missing'], 1, /no such operation/],
    ];
    for (const [args, code, message] of cases) {
      const ran = await run(args);
      expect([args, ran.code]).toEqual([args, code]);
      expect(ran.err).toMatch(message);
      expect(ran.out).toBe('');
    }
    expect((await api.stores.jobs.list({ cluster: 'default', limit: 10 })).jobs).toEqual([]);
    const away = await carillon(['job', 'list', '--url', 'http://127.0.0.1:9']);
    expect(away).toMatchObject({ code: 1, err: expect.stringMatching(/Does Carillon run there\?/) });
  });

  test('help of every command', async () => {
    for (const args of [['job'], ['job', 'add'], ['tail'], ['import'], ['export'], ['operation'], ['calendar']]) {
      expect(await done(...args, '--help')).toMatch(/^Usage: carillon /);
    }
  });

  test('a crontab: imported, told line by line, and a second time without a change', async () => {
    const crontab = file(
      'debian',
      'CRON_TZ=Europe/Madrid\n0 6 * * * root /bin/x\n@reboot root /bin/boot\n61 * * * * root /bin/y\n',
    );
    const dry = await run(['import', 'crontab', crontab, '--system', '--dry-run']);
    expect(dry.out).toContain('1 jobs would be imported, 2 parts refused');
    expect((await run(['job', 'list'])).out).toBe('no jobs\n');
    const first = await run(['import', 'crontab', crontab, '--system']);
    expect(first).toMatchObject({ code: 1, err: '' });
    expect(first.out).toMatch(/^created 1, updated 0, unchanged 0, refused 2\nrefused, line 3: .*@reboot/);
    expect(first.out).toContain('refused, line 4: schedule.expression: ');
    const again = await run(['import', 'crontab', '-', '--system', '--json'], '0 6 * * * root /bin/z\n');
    expect(again).toMatchObject({ code: 0, err: expect.stringContaining('UTC is taken') });
    expect(JSON.parse(again.out)).toMatchObject({ counts: { created: 1 }, refused: [] });
    const second = JSON.parse((await run(['import', 'crontab', crontab, '--system', '--json'])).out) as object;
    expect(second).toMatchObject({ counts: { created: 0, unchanged: 1 }, refused: [{ line: 3 }, { line: 4 }] });
    const operations = await json('operation', 'list');
    expect(operations).toHaveLength(3);
    const { key } = (operations as { key: string }[])[0]!;
    expect(await done('operation', 'show', key, '--wait')).toContain('done, 1 lines');
  });

  test('Kubernetes manifests', async () => {
    const manifest = file(
      'cron.yaml',
      'apiVersion: batch/v1\nkind: CronJob\nmetadata: { name: c }\nspec: { schedule: "@daily", suspend: true, concurrencyPolicy: Forbid, jobTemplate: {} }\n',
    );
    expect(await done('import', 'kubernetes', manifest)).toMatch(/^created 1, .*\nnote, line 1: .*concurrencyPolicy/);
    expect(await json('job', 'show', 'kubernetes/default/c')).toMatchObject({ state: 'paused' });
  });

  test('a job file goes from one installation into another, payloads byte for byte', async () => {
    const payloads = ['{"a": 1.0, "b":"\\u00e9\\/]}"}', '[ ]', '"}"', '12345678901234567890', 'null'];
    for (const [n, payload] of payloads.entries()) {
      await done('job', 'add', `file/${n}`, '--every', '1h', '--payload', payload, ...(n === 1 ? ['--paused'] : []));
    }
    await done('job', 'add', 'file/end', '--cron', '@daily');
    await done('job', 'terminate', 'file/end');
    const { out, err } = await run(['export', 'jobs', '--prefix', 'file/']);
    expect(err).toBe('exported 5 jobs, left out 1 that are at their end\n');
    const other = await startApi();
    try {
      const jobs = file('jobs.ndjson', `\n${out}\n{"key":"bad"}\n`);
      const imported = await run(['import', 'jobs', jobs, '--url', other.url]);
      expect(imported).toMatchObject({
        code: 1,
        out: expect.stringMatching(/^created 5, .*refused 1\nrefused, line 8: schedule/),
      });
      for (const [n, payload] of payloads.entries()) {
        const [before, after] = await Promise.all([
          api.stores.jobs.get('default', `file/${n}`),
          other.stores.jobs.get('default', `file/${n}`),
        ]);
        expect(after).toMatchObject({ payload, schedule: before!.schedule, state: before!.state });
      }
      const again = await run(['import', 'jobs', '-', '--url', other.url, '--json'], out);
      expect(JSON.parse(again.out)).toMatchObject({ counts: { created: 0, unchanged: 5 } });
    } finally {
      await other.close();
    }
  });

  test('tail prints triggers as they come, from the first that is kept, and as a group', async () => {
    await api.publish(3, 3);
    expect((await run(['tail', '--from', 'first', '--count', '3', '--json'])).out.trim().split('\n')).toHaveLength(3);
    const child = start(['tail', '--count', '2'], { CARILLON_URL: api.url, CARILLON_API_KEY: KEY });
    const [opened] = (await once(createInterface(child.stderr!), 'line')) as [string];
    expect(opened).toBe('reading 8 partitions of carillon.triggers.default');
    const lines: string[] = [];
    createInterface(child.stdout!).on('line', (line) => lines.push(line));
    await api.publish(2, 1, 10);
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(lines).toEqual(
      [0, 1].map((n) => expect.stringContaining(`  job-0  0-0-${Date.UTC(2027, 0, 1, 0, 10 + n)}  {"job":0}`)),
    );
    const first = await run(['tail', '--group', 'g', '--count', '4']);
    const rest = await run(['tail', '--group', 'g', '--count', '1']);
    expect(first.out.trim().split('\n')).toHaveLength(4);
    expect(first.out).not.toContain(rest.out.trim());
  });

  test('tail ends by a signal with 0', async () => {
    const child = start(['tail'], { CARILLON_URL: api.url, CARILLON_API_KEY: KEY });
    await once(createInterface(child.stderr!), 'line');
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  test('calendars', async () => {
    const definition = file('calendar.json', '{"weekdays":["sun"]}');
    expect(await done('calendar', 'put', 'free', definition)).toBe('calendar free, version 1\n');
    expect(await json('calendar', 'show', 'free')).toMatchObject({ definition: { weekdays: ['sun'] } });
    expect(await done('calendar', 'list')).toBe('free, version 1\n');
    expect(await done('calendar', 'delete', 'free')).toBe('deleted free\n');
  });
});

describe('job files', () => {
  test('the jobs of a page as they stand in it', () => {
    const jobs = ['{"key":"a]}","payload":{"x":[1,"\\"]"]}}', '{"key":"b","payload":"[{"}'];
    expect(pageOf(`{"jobs":[${jobs.join(',')}],"next":"c]"}`)).toEqual({ jobs, next: 'c]' });
    expect(pageOf('{"jobs":[],"next":null}')).toEqual({ jobs: [], next: null });
  });

  test('what is answered and never written is left out; a job at its end is', () => {
    const view = '{"cluster":"c","key":"k","version":3,"state":"paused","nextFireAt":null,"payload":{"a": 1.0}}';
    expect(exported(view)).toBe('{"key":"k","state":"paused","payload":{"a": 1.0}}');
    expect(exported(view.replace('paused', 'finished'))).toBeNull();
  });
});
