import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';

const MAIN = new URL('../../../src/cli/main.ts', import.meta.url).pathname;

/** Runs `carillon preview` as a user would. */
function preview(...args: string[]): { code: number | null; out: string; err: string } {
  const run = spawnSync(process.execPath, [MAIN, 'preview', ...args], { encoding: 'utf8' });
  return { code: run.status, out: run.stdout, err: run.stderr };
}

const AFTER = ['--after', '2027-01-01T00:00:00Z'];

describe('carillon preview', () => {
  test.each<[string, string[], string[]]>([
    [
      'cron in a zone',
      ['--cron', '40 2 * * 7', '--zone', 'Europe/Paris', '--after', '2027-03-27T12:00:00Z', '--count', '2'],
      ['2027-03-28T01:00:00Z', '2027-04-04T00:40:00Z'],
    ],
    [
      'cron with a gap policy',
      [
        '--cron',
        '40 2 * * 7',
        '--zone',
        'Europe/Paris',
        '--after',
        '2027-03-27T12:00:00Z',
        '--count',
        '1',
        '--gap',
        'skip',
      ],
      ['2027-04-04T00:40:00Z'],
    ],
    [
      'fixed rate with an anchor',
      ['--every', '7200000', '--anchor', '2027-01-10T17:24:10.500Z', ...AFTER, '--count', '2'],
      ['2027-01-10T17:24:10.500Z', '2027-01-10T19:24:10.500Z'],
    ],
    ['fixed rate from --after', ['--every', '60000', ...AFTER, '--count', '1'], ['2027-01-01T00:01:00Z']],
    ['a single time', ['--at', '2027-05-01T09:00:00+02:00', ...AFTER], ['2027-05-01T07:00:00Z']],
    [
      'start, end and maximum count',
      [
        '--cron',
        '@hourly',
        '--start',
        '2027-01-02T00:00:00Z',
        '--end',
        '2027-01-02T05:00:00Z',
        '--max-count',
        '2',
        ...AFTER,
      ],
      ['2027-01-02T00:00:00Z', '2027-01-02T01:00:00Z'],
    ],
  ])('%s', (_, args, expected) => {
    const { code, out, err } = preview(...args, '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(JSON.parse(out)).toEqual(expected);
  });

  test('a table shows local times and uneven gaps', () => {
    const { out } = preview('--cron', '*/40 * * * *', '--zone', 'Asia/Kolkata', ...AFTER, '--count', '3');
    expect(out).toBe(
      [
        'UTC                   local (Asia/Kolkata)            gap',
        '2027-01-01T00:10:00Z  Fri 2027-01-01 05:40:00 +05:30',
        '2027-01-01T00:30:00Z  Fri 2027-01-01 06:00:00 +05:30  +20 min',
        '2027-01-01T01:10:00Z  Fri 2027-01-01 06:40:00 +05:30  +40 min',
        '',
      ].join('\n'),
    );
  });

  test('with a spread window the table shows when it fires', () => {
    const { out } = preview('--every', '60000', '--spread', '50000', '--key', 'k', ...AFTER, '--count', '1');
    expect(out).toMatch(/fires at\n2027-01-01T00:01:00Z .* 2027-01-01T00:01:\d\d\.\d{3}Z\n$/);
  });

  test.each<[string, string[], string]>([
    ['nothing to preview', [], 'give one of --cron, --every and --at'],
    ['two kinds', ['--cron', '* * * * *', '--every', '1000'], 'give one of'],
    ['a bad field', ['--cron', '61 * * * *'], '--cron: The schedule cannot be read: minute field: "61"'],
    ['a bad zone', ['--cron', '* * * * *', '--zone', 'Mars/Phobos'], '--zone'],
    ['an empty zone', ['--cron', '* * * * *', '--zone', ''], '--zone'],
    ['a date that does not exist', ['--cron', '0 0 30 2 *'], 'name no day of any year'],
    ['nothing left', ['--cron', '0 0 0 1 1 ? 1999'], 'has no occurrence after'],
    ['H without a key', ['--cron', 'H * * * *'], '--key'],
    ['a period that is too short', ['--every', '99'], '--every'],
    ['a period that is no number', ['--every', '1e3'], '--every'],
    ['a time without an offset', ['--every', '1000', '--anchor', '2027-01-01T00:00:00'], '--anchor'],
    ['a time that does not exist', ['--at', '2027-02-29T00:00:00Z'], 'does not exist'],
    ['a count beyond the limit', ['--every', '1000', '--count', '1001'], '--count'],
    ['a count of zero', ['--every', '1000', '--count', '0'], '--count'],
    ['an unknown option', ['--evry', '1000'], "Unknown option '--evry'"],
    ['a word too many', ['now', '--every', '1000'], 'Unexpected argument'],
    ['an unknown policy', ['--cron', '* * * * *', '--gap', 'no'], '--gap'],
    ['an anchor of a cron', ['--cron', '* * * * *', '--anchor', '2027-01-01T00:00:00Z'], '--anchor'],
    ['an anchor of a time', ['--at', '2099-01-01T00:00:00Z', '--anchor', '2027-01-01T00:00:00Z'], '--anchor'],
    ['a gap policy of a rate', ['--every', '1000', '--gap', 'skip'], '--gap'],
    ['an overlap policy of a time', ['--at', '2099-01-01T00:00:00Z', '--overlap', 'both'], '--overlap'],
    ['a bad zone of a rate, which is only shown in it', ['--every', '1000', '--zone', 'Mars/Phobos'], '--zone'],
    ['a key that no job may have', ['--cron', 'H * * * *', '--key', 'x'.repeat(256)], '--key'],
    ['an empty key', ['--cron', '* * * * *', '--key', ''], '--key'],
  ])('exit code 2 with the reason: %s', (_, args, reason) => {
    const { code, out, err } = preview(...args, '--json');
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(reason);
  });

  test('an unknown command is refused with the list of commands', () => {
    const run = spawnSync(process.execPath, [MAIN, 'constructor'], { encoding: 'utf8' });
    expect(run.status).toBe(2);
    expect(run.stderr).toContain('there is no command "constructor"');
  });
});
