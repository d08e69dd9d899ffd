import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { loadScript, parseScript } from '../../../src/adapters/redis/script.ts';

const folder = new URL('../../../src/adapters/redis/scripts/', import.meta.url);

const source = (parts: { keys?: string; args?: string; body?: string } = {}): string =>
  [
    '#!lua',
    '-- sample',
    '-- why: because',
    '-- keys:',
    parts.keys ?? '--   1 members\n--   2 records',
    '-- arguments:',
    parts.args ?? '--   1 time',
    '-- answer: nothing',
    parts.body ?? "return redis.call('X', KEYS[1], KEYS[2], ARGV[1])",
  ].join('\n');

describe('headers of Redis scripts', () => {
  test('every script of the folder has a header that fits its source', () => {
    const names = readdirSync(folder).map((file) => file.replace(/\.lua$/, ''));
    expect(names.length).toBeGreaterThan(5);
    for (const name of names) expect(loadScript(name).name).toBe(name);
  });

  test('names keys and arguments', () => {
    expect(parseScript('sample', source())).toMatchObject({ keys: 2, arguments: 1 });
  });

  test.each([
    ['one key is not named', { keys: '--   1 members' }],
    ['a named key is not used', { keys: '--   1 members\n--   2 records\n--   3 state' }],
    ['an argument is not named', { args: '--   as many as there are' }],
    ['a named argument is not used', { body: "return redis.call('X', KEYS[1], KEYS[2])" }],
    ['keys have a gap', { keys: '--   1 members\n--   3 records', body: 'return KEYS[1] .. KEYS[3] .. ARGV[1]' }],
  ])('refuses a script where %s', (_, parts) => {
    expect(() => parseScript('sample', source(parts))).toThrow(/sample\.lua: the header names/);
  });

  test('refuses a script without its name or a section', () => {
    expect(() => parseScript('other', source())).toThrow('begin with #!lua and its name');
    expect(() => parseScript('sample', source().replace('-- why: because\n', ''))).toThrow('no "why:"');
  });
});
