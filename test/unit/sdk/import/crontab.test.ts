import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { debianCrontabs } from '../../../../bench/demo/debian.ts';
import type { JobForm, ScheduleForm } from '../../../../src/core/form/job-form.ts';
import { readSchedule } from '../../../../src/core/form/read.ts';
import { formatInstant } from '../../../../src/core/schedule/iso.ts';
import { preview } from '../../../../src/core/schedule/preview.ts';
import { type CrontabOptions, importCrontab } from '../../../../src/sdk/import/crontab.ts';
import { caseOf } from '../../schedule/case-file.ts';

const NOW_MS = Date.parse('2027-01-01T00:00:00Z');
const read = (text: string, options: Partial<CrontabOptions> = {}) =>
  importCrontab(text, { name: '/etc/cron.d/x', nowMs: NOW_MS, ...options });
const only = (text: string, options: Partial<CrontabOptions> = {}): JobForm => {
  const { jobs, refused } = read(text, options);
  expect(refused).toEqual([]);
  expect(jobs).toHaveLength(1);
  return jobs[0]!.form;
};

describe('crontab files', () => {
  test('the cron lines of Debian packages, previewed against a table made by croniter', () => {
    const table = JSON.parse(
      readFileSync(new URL('../../../../bench/oracle/cron-table.json', import.meta.url), 'utf8'),
    ) as {
      previews: Record<string, string[] | null>;
    };
    const afterMs = Date.parse('2027-03-13T00:00:00Z');
    let lines = 0;
    for (const { file, lines: content } of debianCrontabs()) {
      const { jobs, refused } = read(content.join('\n'), {
        name: file,
        system: true,
        zone: 'Europe/Madrid',
        nowMs: afterMs,
      });
      for (const [index, line] of content.entries()) {
        lines += 1;
        const expected = table.previews[line];
        expect(expected, line).not.toBeUndefined();
        const job = jobs.find((one) => one.line === index + 1);
        if (expected === null) {
          expect(refused.map((one) => one.line)).toContain(index + 1);
          continue;
        }
        const schedule = readSchedule(job!.form.schedule, afterMs);
        const context = { key: job!.form.key, createdMs: afterMs };
        const next = preview(schedule, {}, context, { afterMs, count: 10 }).map(({ nominalMs }) =>
          formatInstant(nominalMs),
        );
        expect(next, line).toEqual(expected);
      }
    }
    expect(lines).toBe(Object.keys(table.previews).length);
  });

  test('a user’s line: fields parted by blanks and tabs, the whole rest is the command', () => {
    expect(only('  */5\t0-6  *  * mon-fri \t /bin/x "a  b" # no comment ')).toEqual({
      key: expect.stringMatching(/^crontab\/x\/[0-9a-f]{8}$/),
      schedule: { kind: 'cron', expression: '*/5 0-6 * * mon-fri' },
      payload: { command: '/bin/x "a  b" # no comment', env: {}, source: { file: 'x', line: 1 } },
      labels: { source: 'crontab' },
    });
  });

  test('the system form has a user', () => {
    const { payload } = only('@Daily www-data\t/bin/x -y', { system: true });
    expect(payload).toMatchObject({ user: 'www-data', command: '/bin/x -y' });
  });

  test('comments and blank lines, also with blanks before them and Windows line ends', () => {
    const { jobs } = read('# one\r\n\r\n   # two\r\n\t\r\n0 6 * * * /bin/x\r\n');
    expect(jobs).toMatchObject([{ line: 5, form: { payload: { command: '/bin/x' } } }]);
  });

  test('variables hold for the lines below them; CRON_TZ is the zone, TZ is not', () => {
    const { jobs } = read(
      [
        'SHELL=/bin/sh',
        'PATH = "/usr/bin:/bin "',
        "MAILTO=''",
        '0 1 * * * first',
        'CRON_TZ=Asia/Kathmandu',
        'TZ=UTC',
        '0 2 * * * second',
        'CRON_TZ=',
        '0 3 * * * third',
      ].join('\n'),
      { zone: 'Europe/Madrid' },
    );
    const env = { SHELL: '/bin/sh', PATH: '/usr/bin:/bin ', MAILTO: '' };
    expect(jobs.map(({ form }) => (form.payload as { env: unknown }).env)).toEqual([
      env,
      { ...env, TZ: 'UTC' },
      { ...env, TZ: 'UTC' },
    ]);
    const zones = jobs.map(({ form }) => (form.schedule as Extract<ScheduleForm, { kind: 'cron' }>).zone);
    expect(zones).toEqual(['Europe/Madrid', 'Asia/Kathmandu', 'Europe/Madrid']);
  });

  test('% ends the command and begins its input; \\% is a plain %', () => {
    expect(only('0 6 * * * mail -s "100\\%" root%Dear root,%%bye \\% ok').payload).toMatchObject({
      command: 'mail -s "100%" root',
      stdin: 'Dear root,\n\nbye % ok',
    });
  });

  test('each bad line is refused with its number and reason, and the rest is imported', () => {
    const { jobs, refused } = read(
      [
        '@reboot /bin/boot',
        '61 * * * * x',
        '0 6 * * *',
        '0 6 * *',
        '@yearlyy x',
        '0 0 30 2 * never',
        '0 6 * * * fine',
      ].join('\n'),
    );
    expect(jobs.map(({ line }) => line)).toEqual([7]);
    expect(refused.map(({ line, reason }) => [line, reason])).toEqual([
      [1, expect.stringContaining('@reboot')],
      [2, expect.stringContaining('61')],
      [3, expect.stringContaining('command is missing')],
      [4, expect.stringContaining('five fields')],
      [5, expect.stringContaining('@yearlyy')],
      [6, expect.stringContaining('no occurrence')],
    ]);
    const zoned = read('CRON_TZ=Mars/Olympus\n0 6 * * * x');
    expect(zoned.refused).toMatchObject([{ line: 2, field: 'schedule.zone' }]);
  });

  test('O-CR-17, O-CR-20: what no cron may take is refused in a file as well', () => {
    const fields = (caseOf('O-CR-17').input.reject ?? []).filter((line) => line.trim().split(/\s+/).length === 5);
    const lines = [...fields.filter((line) => !/[\n\0]/.test(line)), ...(caseOf('O-CR-20').input.also ?? [])];
    expect(lines.length).toBeGreaterThan(20);
    const { jobs, refused } = read(lines.map((line) => `${line} command`).join('\n'));
    expect(jobs).toEqual([]);
    expect(refused.map(({ line }) => line)).toEqual(lines.map((_, index) => index + 1));
  });

  test('a key stays when lines move and when a schedule changes, and tells equal commands apart', () => {
    const keys = (text: string) => read(text).jobs.map(({ form }) => form.key);
    const [a, b] = keys('0 6 * * * a\n0 7 * * * b') as [string, string];
    expect(keys('# new\n\n30 6 * * * b\n0 6 * * * a')).toEqual([b, a]);
    expect(keys('0 6 * * * a\n0 18 * * * a')).toEqual([a, `${a}-2`]);
    expect(read('0 6 * * * a', { prefix: 'p:' }).jobs[0]!.form.key).toMatch(/^p:x\//);
  });

  test('O-SC-05: __proto__ is a variable like any other', () => {
    const { payload } = only('"__proto__"=1\n0 6 * * * x');
    expect(JSON.stringify(payload)).toContain('"__proto__":"1"');
    expect(({} as Record<string, unknown>)['1']).toBeUndefined();
  });

  test('bytes that are not UTF-8 are refused in a line that says something, and passed over in a comment', () => {
    const text = new TextDecoder().decode(
      Buffer.from('# caf\u00e9\nNAME=caf\u00e9\n0 6 * * * caf\u00e9\n0 7 * * * fine', 'latin1'),
    );
    const { jobs, refused } = read(text);
    expect(refused.map(({ line, reason }) => [line, reason])).toEqual([
      [2, expect.stringContaining('UTF-8')],
      [3, expect.stringContaining('UTF-8')],
    ]);
    expect(jobs.map(({ line, form }) => [line, form.payload])).toEqual([[4, expect.objectContaining({ env: {} })]]);
  });

  test('a byte order mark before the first line is no part of it', () => {
    expect(read('\ufeff0 6 * * * x').jobs).toHaveLength(1);
  });
});
