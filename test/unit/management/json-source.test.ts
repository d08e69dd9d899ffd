import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/core/limits.ts';
import { readJson, utf8Text } from '../../../src/management/json-source.ts';

const refusal = (text: string): { field: string; detail: string } => {
  try {
    readJson(text);
  } catch (error) {
    return error as { field: string; detail: string };
  }
  throw new Error(`taken: ${text}`);
};

/** JSON values without what the reader refuses on purpose. */
const values = fc
  .jsonValue({ maxDepth: 6 })
  .filter((value) => !/\\u0000|\\u[dD][89a-fA-F]/.test(JSON.stringify(value)));
const blanks = fc.constantFrom('', ' ', '\n', '\t', '\r\n', '  ');

describe('strict JSON', () => {
  it('reads what JSON.parse reads, whatever blanks stand in it', () => {
    fc.assert(
      fc.property(values, fc.nat(4), blanks, (value, indent, blank) => {
        const text = `${blank}${JSON.stringify(value, null, indent)}${blank}`;
        const read = readJson(text);
        const expected: unknown = JSON.parse(text);
        if (typeof expected === 'object' && expected !== null && 'payload' in expected) return;
        expect(read).toEqual(expected);
      }),
    );
  });

  it('takes and refuses the same texts as JSON.parse, but for its own rules', () => {
    const text = fc.array(
      fc.constantFrom(
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '"a"',
        '"b"',
        '1',
        '-',
        '0',
        '.5',
        'e3',
        'true',
        'nul',
        'null',
        ' ',
        '"\\n"',
        '"\\x"',
        '"',
      ),
      { maxLength: 9 },
    );
    fc.assert(
      fc.property(text, (parts) => {
        const joined = parts.join('');
        let expected: unknown;
        try {
          expected = JSON.parse(joined);
        } catch {
          refusal(joined);
          return;
        }
        // A member name that comes twice is our own rule.
        if (/"(a|b|\\n)".*:.*"\1"/s.test(joined)) return;
        expect(readJson(joined)).toEqual(expected);
      }),
      { numRuns: 5_000 },
    );
  });

  it('answers the payload as its text, byte for byte, in a body and in each item of an array', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), fc.nat(3), (value, indent) => {
        const source = JSON.stringify(value, null, indent);
        expect(readJson(`{"key": 1, "payload" :${source} ,"x":{"payload":[1]}}`)).toEqual({
          key: 1,
          payload: source,
          x: { payload: [1] },
        });
        expect(readJson(`[{"payload":\n${source}\n}]`)).toEqual([{ payload: source }]);
      }),
    );
  });

  it('in a payload names may come twice and escapes stay; its grammar is still checked', () => {
    const source = '{"a":1,"a":2,"s":"\\u0000\\ud800\\/"}';
    expect(readJson(`{"payload":${source}}`)).toEqual({ payload: source });
    for (const bad of ['{"a":1,}', '[1', '"\\x"', '01', '{a:1}', '"\u0001"', 'undefined', ''])
      refusal(`{"payload":${bad}}`);
  });

  it('names the path and the position of a fault', () => {
    expect(refusal('{"a":{"b":[1,{"c":tru}]}}')).toMatchObject({ field: 'a.b[1].c' });
    expect(refusal('{"a":1,\n "a":2}')).toMatchObject({
      field: 'a',
      detail: expect.stringContaining('line 2, column 2'),
    });
    expect(refusal('{"a":"x\\u0000y"}')).toMatchObject({ field: 'a', detail: expect.stringContaining('NUL') });
    expect(refusal('{"k\\u0000":1}')).toMatchObject({ field: 'body' });
    expect(refusal('[{"key":"\\ud800x"}]')).toMatchObject({ field: '[0].key' });
    expect(refusal('{"\\ud800":1}').detail).toContain('surrogate');
  });

  it('counts depth, not the number of arrays', () => {
    const most = LIMITS.jsonDepth;
    expect(readJson(`${'['.repeat(most)}${']'.repeat(most)}`)).toBeDefined();
    for (const open of ['[', '{"a":', '{"payload":[']) refusal(open.repeat(most + 1));
    expect(refusal('['.repeat(10_000)).detail).toContain('deeper');
    const flat = `[${'[],{},'.repeat(500)}{"payload":[[],{},[]]}]`;
    expect(readJson(flat)).toHaveLength(1_001);
  });

  it('O-SC-05: __proto__ is a name like any other', () => {
    const read = readJson('{"__proto__":{"polluted":1}}') as object;
    expect(Object.keys(read)).toEqual(['__proto__']);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('bytes that are not UTF-8 are refused', () => {
    for (const bytes of [
      [0xff, 0xfe, 0x7b, 0],
      [0xc0, 0x80],
      [0xe0, 0xa4],
      [0xed, 0xa0, 0x80],
    ]) {
      expect(() => utf8Text(Uint8Array.from(bytes))).toThrow('UTF-8');
    }
  });
});
