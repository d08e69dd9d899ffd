import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { preview } from '../../../src/core/schedule/preview.ts';
import { compileSchedule, firstOccurrence } from '../../../src/core/schedule/schedule.ts';
import type { Schedule } from '../../../src/core/schedule/types.ts';
import { zoneDataVersion } from '../../../src/core/schedule/zones/rules.ts';
import { zoneFingerprints, zonesChanged } from '../../../src/core/schedule/zones/zone.ts';
import { CASES, caseOf, cronInstants, nextInstants } from './case-file.ts';

const AFTER_MS = Date.parse('2027-02-01T00:00:00Z');

/** What registration does with a schedule: compile, and prove that it has an occurrence. */
function register(schedule: Schedule, key?: string): number {
  const context = { createdMs: AFTER_MS, ...(key !== undefined && { key }) };
  return firstOccurrence(compileSchedule(schedule, {}, context), schedule, AFTER_MS);
}

function cron(expression: string): Schedule {
  return { kind: 'cron', expression };
}

describe('next instants of the cron cases', () => {
  for (const { id, topic, input, expect: expected } of CASES) {
    if (topic !== '1-cron') continue;
    for (const [index, check] of (input.checks ?? []).entries()) {
      test(`${id} check ${index + 1}: ${JSON.stringify(check.expr)} ${check.zone}`, () => {
        expect(cronInstants(check)).toEqual(expected.next![index]);
      });
    }
  }
});

describe('what else the cron cases demand', () => {
  test('O-CR-05: no silence longer than 30 s in the repeated hour', () => {
    const fires = nextInstants(
      { kind: 'cron', expression: '10,40 * * * * *', zone: 'Europe/London' },
      '2026-10-25T00:59:39Z',
      123,
    );
    expect(fires[0]).toBe('2026-10-25T00:59:40Z');
    expect(fires.at(-1)).toBe('2026-10-25T02:00:40Z');
    expect(new Set(fires.slice(1).map((at, i) => Date.parse(at) - Date.parse(fires[i]!)))).toEqual(new Set([30_000]));
  });

  test('O-CR-08: 24 fires on local 1 April, none on the 2nd', () => {
    const schedule: Schedule = { kind: 'cron', expression: '20 * 1 * *', zone: 'Europe/Prague' };
    const compiled = compileSchedule(schedule, {}, { createdMs: 0 });
    const firstOfApril = Date.parse('2027-03-31T22:00:00Z');
    expect(compiled.count(firstOfApril - 1, firstOfApril + 86_400_000 - 1)).toBe(24);
    expect(compiled.count(firstOfApril + 86_400_000 - 1, firstOfApril + 2 * 86_400_000 - 1)).toBe(0);
  });

  // That stored next fires are computed again when the data change is a test of the engine; this is what it builds on.
  test('O-CR-09: the data version is readable, and zones with other rules are found', () => {
    expect(zoneDataVersion).toMatch(/^20\d\d[a-z]$/);
    const stored = zoneFingerprints();
    expect(zonesChanged(stored)).toEqual([]);
    const { 'Asia/Tokyo': _gone, ...others } = stored;
    expect(zonesChanged({ ...others, 'America/Vancouver': 'of older data', 'Mars/Phobos': 'x' })).toEqual([
      'America/Vancouver',
      'Asia/Tokyo',
      'Mars/Phobos',
    ]);
  });

  test.each(caseOf('O-CR-14').input.reject!)('O-CR-14 refuses %j with its field', (expression) => {
    expect(() => register(cron(expression))).toThrow(/day-of-month|day-of-week|month|year/);
    expect(() => preview(cron(expression), {}, { createdMs: AFTER_MS }, { afterMs: AFTER_MS, count: 5 })).toThrow();
  });

  test.each([
    ['0 0 30 1 *', '2028-01-30T00:00:00Z'],
    ['0 0 29 2 *', '2028-02-29T00:00:00Z'],
    ['0 0 31 6,7 *', '2027-07-31T00:00:00Z'],
    ['0 0 30,31 2,3 *', '2027-03-30T00:00:00Z'],
  ])('O-CR-14 accepts %j', (expression, first) => {
    expect(caseOf('O-CR-14').input.accept).toContain(expression);
    expect(register(cron(expression))).toBe(Date.parse(first));
  });

  test.each(caseOf('O-CR-17').input.reject!)('O-CR-17 refuses %j', (expression) => {
    expect(() => register(cron(expression))).toThrow(
      expect.objectContaining({ code: 'schedule-invalid', field: 'schedule.expression' }),
    );
  });

  // A bad zone that already stands in a store becomes a job in the state error: a test of the engine.
  test.each(caseOf('O-CR-18').input.zones!)('O-CR-18 refuses the zone %j', (zone) => {
    expect(() => register({ kind: 'cron', expression: '0 12 * * *', zone: zone as string })).toThrow(
      expect.objectContaining({ code: 'zone-unknown', field: 'schedule.zone' }),
    );
  });

  test.each(caseOf('O-CR-20').input.also!)('O-CR-20 refuses %j by its name', (expression) => {
    expect(() => register(cron(expression))).toThrow(expression);
  });

  test.each([undefined, 'UTC', 'America/New_York', 'Australia/Adelaide'])(
    'O-CR-21: the same instants with TZ=%s in the process',
    (TZ) => {
      const [check] = caseOf('O-CR-21').input.checks!;
      const main = new URL('../../../src/cli/main.ts', import.meta.url).pathname;
      const args = ['preview', '--cron', check!.expr, '--after', check!.after, '--count', String(check!.n), '--json'];
      const { TZ: _own, ...env } = process.env;
      const run = spawnSync(process.execPath, [main, ...args], { env: TZ ? { ...env, TZ } : env, encoding: 'utf8' });
      expect(run.stderr).toBe('');
      expect(JSON.parse(run.stdout)).toEqual(caseOf('O-CR-21').expect.next![0]);
    },
  );

  test('O-CR-21: a time without an offset is refused, not read in the zone of the host', () => {
    const main = new URL('../../../src/cli/main.ts', import.meta.url).pathname;
    const run = spawnSync(process.execPath, [main, 'preview', '--at', '2027-01-01T00:00:00'], { encoding: 'utf8' });
    expect(run.status).toBe(2);
    expect(run.stderr).toContain('--at');
  });
});

describe('O-CR-19: H', () => {
  const keys = Array.from({ length: 200 }, (_, i) => `job-${i}`);
  const AFTER = '2027-01-01T00:00:00Z';
  const hashed = (expression: string, key: string, n = 40) =>
    nextInstants({ kind: 'cron', expression, zone: 'UTC' }, AFTER, n, key);
  const minutesOf = (instants: string[]) => instants.map((at) => new Date(at).getUTCMinutes());

  test('no key throws, and each gives 40 fires', () => {
    for (const expression of ['H H * * *', 'H/7 H(3-5) * * *', 'H(1-5)/10 * * * *', '0 0 H/40 * *']) {
      for (const key of keys) expect(hashed(expression, key)).toHaveLength(40);
    }
  });

  test('a key has the same fires for ever: these were written down once', () => {
    expect(hashed('H H * * *', 'job-0', 1)).toEqual(['2027-01-01T04:04:00Z']);
    expect(hashed('H H * * *', 'job-1', 1)).toEqual(['2027-01-01T17:00:00Z']);
    expect(hashed('H H H * *', 'Rechnung ü', 1)).toEqual(['2027-01-18T20:37:00Z']);
  });

  test('H(3-5) stays in 3 to 5; H/7 gives 8 or 9 fires an hour with gaps of 7', () => {
    const sizes = new Set<number>();
    for (const key of keys) {
      const firstHour = hashed('H/7 H(3-5) * * *', key).filter((at) => at.startsWith('2027-01-01'));
      expect([3, 4, 5]).toContain(new Date(firstHour[0]!).getUTCHours());
      const minutes = minutesOf(firstHour);
      sizes.add(minutes.length);
      expect(minutes.slice(1).every((minute, i) => minute - minutes[i]! === 7)).toBe(true);
    }
    expect([...sizes].sort()).toEqual([8, 9]);
  });

  test('H(1-5)/10 is one minute of 1 to 5; keys use all of them, about equally', () => {
    const count = new Map<number, number>();
    for (const key of keys) {
      const minutes = new Set(minutesOf(hashed('H(1-5)/10 * * * *', key)));
      expect(minutes.size).toBe(1);
      for (const minute of minutes) count.set(minute, (count.get(minute) ?? 0) + 1);
    }
    expect([...count.keys()].sort()).toEqual([1, 2, 3, 4, 5]);
    expect(Math.min(...count.values())).toBeGreaterThan(20);
  });

  test('without a key H is refused by its name', () => {
    expect(() => register(cron('H H * * *'))).toThrow(/"H" needs the key of a job/);
  });

  test.each([
    'H-5 * * * *',
    'H() * * * *',
    'H(5) * * * *',
    'H(1-99) * * * *',
    'H/0 * * * *',
    'HH * * * *',
    '0 0 0 1 1 ? H',
  ])('%j is refused', (expression) => {
    expect(() => register(cron(expression), 'a key')).toThrow(expect.objectContaining({ code: 'schedule-invalid' }));
  });
});
