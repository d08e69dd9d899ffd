import { describe, expect, test } from 'vitest';
import { formatInstant, parseInstant } from '../../../src/core/schedule/iso.ts';

describe('instants', () => {
  test.each([
    ['1970-01-01T00:00:00Z', '1970-01-01T00:00:00Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
    ['2028-02-29T00:00:00+14:00', '2028-02-28T10:00:00Z'],
    ['2027-01-31T09:00:00.5-23:59', '2027-02-01T08:59:00.500Z'],
  ])('%s is %s', (text, utc) => {
    expect(formatInstant(parseInstant(text, 'at'))).toBe(utc);
  });

  test.each([
    ['a leap second, which UTC milliseconds do not have', '2016-12-31T23:59:60Z'],
    ['the 24th hour, which RFC 3339 does not have', '2027-01-31T24:00:00Z'],
    ['year 10000', '10000-01-01T00:00:00Z'],
    ['year 10000 in UTC', '9999-12-31T23:59:59-00:01'],
    ['before 1970 in UTC', '1970-01-01T00:00:00+00:01'],
    ['29 February 2027', '2027-02-29T00:00:00Z'],
    ['month 13', '2027-13-01T00:00:00Z'],
    ['no offset', '2027-01-31T09:00:00'],
    ['no seconds', '2027-01-31T09:00Z'],
    ['an offset of a day', '2027-01-31T09:00:00+24:00'],
    ['a mathematical minus', '2027-01-31T09:00:00\u221201:00'],
    ['digits of another script', '\uff12027-01-01T00:00:00Z'],
    ['a line break', '2027-01-31T09:00:00Z\n'],
    ['a number', 5],
    ['null', null],
  ])('refused: %s', (_, text) => {
    expect(() => parseInstant(text as string, 'at')).toThrow(
      expect.objectContaining({ code: 'request-invalid', field: 'at', token: String(text) }),
    );
  });
});
