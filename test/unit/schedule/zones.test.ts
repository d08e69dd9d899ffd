import { describe, expect, test } from 'vitest';
import { zoneDataVersion, zoneNames } from '../../../src/core/schedule/zones/rules.ts';
import { zoneFingerprint, zoneOf } from '../../../src/core/schedule/zones/zone.ts';
import { readZoneTable } from '../../oracle/zone-table.ts';
import { nextInstants } from './case-file.ts';

const table = readZoneTable();

function offsetAt(zone: string, instant: string): number {
  return zoneOf(zone).offsetAt(Date.parse(instant) / 1000) / 3600;
}

describe('against compiled IANA data', () => {
  test('the table is of the same version of the data and has the same names', () => {
    expect(table.iana).toBe(zoneDataVersion);
    expect([...table.zones.keys()].sort()).toEqual(zoneNames());
    expect(table.zones.size).toBeGreaterThan(590);
  });

  test('every zone has the same offsets from 2016 to 2100', () => {
    for (const [name, rows] of table.zones) {
      const zone = zoneOf(name);
      const own: [number, number][] = [];
      for (let at = table.from; at < table.until; at = zone.until) {
        zone.seek(at);
        own.push([at, zone.offset]);
      }
      expect({ name, rows: own }).toEqual({ name, rows });
    }
  });

  test('looking up in any order gives the same offsets', () => {
    for (const [name, rows] of table.zones) {
      const zone = zoneOf(name);
      for (const [at, offset] of [...rows].reverse()) {
        expect(zone.offsetAt(at)).toBe(offset);
        zone.seek(0);
      }
    }
  });
});

describe('known clocks', () => {
  test.each([
    // British Columbia and Alberta stay on their summer clocks from 2026 on.
    ['America/Vancouver', '2026-12-01T00:00:00Z', -7],
    ['America/Edmonton', '2026-12-01T00:00:00Z', -6],
    // Negative saving: Ireland in winter.
    ['Europe/Dublin', '2026-12-01T00:00:00Z', 0],
    ['Europe/Dublin', '2026-07-01T00:00:00Z', 1],
    // Ramadan of 2026 is in February and March; the source ends the rule in September 2026.
    ['Africa/Casablanca', '2026-03-01T00:00:00Z', 0],
    ['Africa/Casablanca', '2026-05-01T00:00:00Z', 1],
    ['Australia/Lord_Howe', '2026-07-01T00:00:00Z', 10.5],
    ['Australia/Lord_Howe', '2026-12-01T00:00:00Z', 11],
    ['Antarctica/Troll', '2026-07-01T00:00:00Z', 2],
    ['Antarctica/Troll', '2026-12-01T00:00:00Z', 0],
    ['Asia/Kathmandu', '2026-12-01T00:00:00Z', 5.75],
    // 30 December 2011 did not exist in Samoa.
    ['Pacific/Apia', '2011-12-30T09:59:59Z', -10],
    ['Pacific/Apia', '2011-12-30T10:00:00Z', 14],
    // A line of the source that ends by standard time, at the moment at which its rules end summer time.
    ['Asia/Almaty', '2004-10-30T19:30:00Z', 7],
    ['Asia/Almaty', '2004-10-30T20:00:00Z', 6],
    ['Etc/GMT+5', '2026-01-01T00:00:00Z', -5],
    ['+05:30', '2026-01-01T00:00:00Z', 5.5],
    ['-14:00', '2026-01-01T00:00:00Z', -14],
    ['Z', '2026-01-01T00:00:00Z', 0],
  ])('%s at %s is %d h', (zone, instant, hours) => {
    expect(offsetAt(zone, instant)).toBe(hours);
  });

  test.each(['2127-07-01T00:00:00Z', '2527-07-01T00:00:00Z', '3999-07-01T12:00:00Z', '9999-07-01T00:00:00Z'])(
    'rules without end hold in %s',
    (summer) => {
      const winter = summer.replace('-07-', '-12-');
      expect([offsetAt('Europe/Berlin', summer), offsetAt('Europe/Berlin', winter)]).toEqual([2, 1]);
      expect([offsetAt('America/New_York', summer), offsetAt('America/New_York', winter)]).toEqual([-4, -5]);
    },
  );

  test('the last Sunday of March stays the day of the change in far years', () => {
    for (const year of [2100, 2399, 2400, 2401, 2471, 2500, 2871, 5000, 9998]) {
      const changes = nextInstants(
        { kind: 'cron', expression: '0 30 2 ? 3 7L', zone: 'Europe/Paris' },
        `${year}-03-01T00:00:00Z`,
        1,
      );
      const sunday = new Date(Date.UTC(year, 2, 31));
      sunday.setUTCDate(31 - sunday.getUTCDay());
      expect(changes).toEqual([`${sunday.toISOString().slice(0, 10)}T01:00:00Z`]);
    }
  });

  test('a date that a zone skipped: fire-after fires at the first instant after it', () => {
    const noon = { kind: 'cron', expression: '0 0 12 30 12 ? 2011', zone: 'Pacific/Apia' } as const;
    expect(nextInstants(noon, '2011-12-01T00:00:00Z', 5)).toEqual(['2011-12-30T10:00:00Z']);
    expect(nextInstants({ ...noon, gap: 'skip' }, '2011-12-01T00:00:00Z', 5)).toEqual([]);
  });
});

describe('names', () => {
  test('a link is its zone, and absent is UTC', () => {
    expect(zoneOf('Asia/Calcutta')).toBe(zoneOf('Asia/Kolkata'));
    expect(zoneOf(undefined)).toBe(zoneOf('Etc/UTC'));
    expect(zoneFingerprint('Asia/Calcutta')).toBe(zoneFingerprint('Asia/Kolkata'));
    expect(zoneFingerprint('Europe/Paris')).not.toBe(zoneFingerprint('Europe/Athens'));
  });

  test.each([
    'europe/paris',
    'Europe/Paris ',
    'constructor',
    '__proto__',
    '+5',
    '+0530',
    '+14:01',
    '+15:00',
    '05:30',
    'UTC+1',
    'utc',
  ])('%j is refused', (name) => {
    expect(() => zoneOf(name)).toThrow(expect.objectContaining({ code: 'zone-unknown' }));
  });

  test('a name in the wrong case is told in the right one', () => {
    expect(() => zoneOf('europe/paris')).toThrow('"europe/paris" is written "Europe/Paris"');
  });
});

describe('lines whose end is not told by the wall clock', () => {
  // From compiled IANA data (PyPI tzdata 2026.4): the instant of the change, and the offsets before and after it, in hours.
  test.each([
    ['Europe/Istanbul', '2011-03-28T01:00:00Z', 2, 3],
    ['Europe/Istanbul', '2014-03-31T01:00:00Z', 2, 3],
    ['Europe/Istanbul', '2015-11-08T01:00:00Z', 3, 2],
    ['Antarctica/Casey', '2012-02-21T17:00:00Z', 11, 8],
    ['Antarctica/Davis', '2010-03-10T20:00:00Z', 5, 7],
    ['Antarctica/Davis', '2012-02-21T20:00:00Z', 5, 7],
    ['Pacific/Kiritimati', '1994-12-31T10:00:00Z', -10, 14],
    ['Pacific/Kanton', '1994-12-31T11:00:00Z', -11, 13],
  ])('%s changes at %s', (name, at, before, after) => {
    const second = Date.parse(at) / 1000;
    const zone = zoneOf(name);
    expect([zone.offsetAt(second - 1) / 3600, zone.offsetAt(second) / 3600]).toEqual([before, after]);
  });
});
