import { describe, expect, test } from 'vitest';
import { Calendar } from '../../../src/core/schedule/calendar.ts';
import { formatInstant } from '../../../src/core/schedule/iso.ts';
import { misfire } from '../../../src/core/schedule/misfire.ts';
import { preview } from '../../../src/core/schedule/preview.ts';
import { compileSchedule, firstOccurrence, nominalTimes, normalSchedule } from '../../../src/core/schedule/schedule.ts';
import type { CalendarDefinition, Schedule, ScheduleBounds } from '../../../src/core/schedule/types.ts';

const NOW = Date.UTC(2027, 0, 1);
const DAY_MS = 86_400_000;
const daily: Schedule = { kind: 'cron', expression: '0 9 * * *', zone: 'Europe/Paris' };

function withCalendar(schedule: Schedule, definition: CalendarDefinition, bounds: ScheduleBounds = {}) {
  const calendar = new Calendar(definition);
  const context = { createdMs: NOW, calendar: (name: string) => (name === 'holidays' ? calendar : undefined) };
  return compileSchedule(schedule, { ...bounds, calendars: ['holidays'] }, context);
}

describe('exclusion calendars', () => {
  test('holidays and weekends are left out, by local date', () => {
    const office = withCalendar(daily, {
      zone: 'Europe/Paris',
      weekdays: ['sat', 'sun'],
      yearly: ['01-01'],
      dates: ['2027-01-05'],
    });
    expect(nominalTimes(office, NOW - DAY_MS, Number.POSITIVE_INFINITY, 3).map(formatInstant)).toEqual([
      '2026-12-31T08:00:00Z',
      '2027-01-04T08:00:00Z',
      '2027-01-06T08:00:00Z',
    ]);
  });

  test('going back over an exclusion that holds many slots is one step', () => {
    const night = withCalendar(
      { kind: 'rate', everyMs: 100, anchorMs: 0 },
      { times: [{ from: '20:00', to: '08:00' }] },
    );
    expect(formatInstant(night.last(NOW + 7 * 3_600_000, NOW - 2 * DAY_MS))).toBe('2026-12-31T19:59:59.900Z');
    expect(formatInstant(night.next(NOW))).toBe('2027-01-01T08:00:00Z');
  });

  test('a year of seconds with nights and weekends left out is counted', () => {
    const seconds = withCalendar(
      { kind: 'cron', expression: '* * * * * *' },
      { weekdays: ['sun'], times: [{ from: '12:00', to: '24:00' }] },
    );
    // 2027 has 365 days, 52 of them Sundays.
    expect(seconds.count(NOW - 1, NOW + 365 * DAY_MS - 1)).toBe((365 - 52) * 43_200);
  });

  test('an unknown calendar is refused by name', () => {
    expect(() => compileSchedule(daily, { calendars: ['nobody'] }, { createdMs: NOW })).toThrow(
      expect.objectContaining({ code: 'calendar-unknown', field: 'bounds.calendars[0]', token: 'nobody' }),
    );
  });

  test('a schedule that is always excluded has no occurrence, in bounded steps', () => {
    const never = withCalendar({ kind: 'cron', expression: '0 12 * * SUN' }, { weekdays: ['sun'] });
    expect(never.next(NOW)).toBe(-1);
    expect(() =>
      withCalendar({ kind: 'cron', expression: '0 12 * * SUN' }, { weekdays: ['sun'] }, { maxCount: 5 }).next(NOW),
    ).not.toThrow();
  });

  test.each<[string, CalendarDefinition]>([
    ['nothing', {}],
    ['dates[0]', { dates: ['2027-02-29'] }],
    ['dates[1]', { dates: ['2027-02-28', '28.2.2027'] }],
    ['yearly[0]', { yearly: ['02-30'] }],
    ['ranges[0].to', { ranges: [{ from: '2027-02-02', to: '2027-02-01' }] }],
    ['ranges[0].from', { ranges: [null as never] }],
    ['weekdays[0]', { weekdays: ['Monday' as never] }],
    ['weekdays', { weekdays: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] }],
    ['weekdays', { weekdays: 'sun' as never }],
    ['times[0].from', { times: [{ from: '24:00', to: '08:00' }] }],
    ['times[0].to', { times: [{ from: '08:00', to: '24:01' }] }],
    ['times[0].to', { times: [{ from: '08:00', to: '08:00' }] }],
    [
      'times',
      {
        times: [
          { from: '08:00', to: '20:00' },
          { from: '20:00', to: '08:00' },
        ],
      },
    ],
    ['dates', { dates: Array.from({ length: 1_001 }, () => '2027-01-01') }],
    ['zone', { zone: 'Mars/Phobos', weekdays: ['sun'] }],
  ])('refused: %s %j', (field, definition) => {
    expect(() => new Calendar(definition)).toThrow(
      field === 'nothing' ? 'at least one' : expect.objectContaining({ field }),
    );
  });
});

describe('spread', () => {
  test('the offset is constant per key, in the window, and keys use all of it', () => {
    const offsets = Array.from({ length: 500 }, (_, i) => {
      const context = { createdMs: NOW, key: `job-${i}` };
      const { offsetMs } = compileSchedule(daily, { spreadMs: 60_000 }, context);
      expect(compileSchedule({ kind: 'rate', everyMs: 100_000 }, { spreadMs: 60_000 }, context).offsetMs).toBe(
        offsetMs,
      );
      return offsetMs;
    });
    expect(Math.min(...offsets)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...offsets)).toBeLessThan(60_000);
    for (let tenth = 0; tenth < 10; tenth++) {
      expect(offsets.filter((ms) => Math.floor(ms / 6_000) === tenth).length).toBeGreaterThan(20);
    }
  });

  test.each<[string, Schedule, number]>([
    ['a rate', { kind: 'rate', everyMs: 60_000 }, 60_000],
    ['the shortest gap of a cron', { kind: 'cron', expression: '0,50 9 * * *' }, 600_000 * 5],
    [
      'the shortest gap over a clock change',
      { kind: 'cron', expression: '30 1,2 * * *', zone: 'Europe/Paris' },
      1_800_000,
    ],
  ])('must be shorter than %s', (_, schedule, period) => {
    const context = { createdMs: NOW, key: 'k' };
    const refused = expect.objectContaining({ code: 'schedule-invalid', field: 'bounds.spreadMs' });
    expect(() => normalSchedule(schedule, { spreadMs: period }, context)).toThrow(refused);
    expect(normalSchedule(schedule, { spreadMs: period - 1 }, context).bounds.spreadMs).toBe(period - 1);
  });

  test('needs a key', () => {
    expect(() => compileSchedule(daily, { spreadMs: 60_000 }, { createdMs: NOW })).toThrow('needs the key');
  });

  test('a preview shows both times, and the misfire age is that of the effective time', () => {
    const rate: Schedule = { kind: 'rate', everyMs: 60_000, anchorMs: NOW };
    const [first] = preview(rate, { spreadMs: 50_000 }, { createdMs: NOW, key: 'k' }, { afterMs: NOW - 1, count: 1 });
    const compiled = compileSchedule(rate, { spreadMs: 50_000 }, { createdMs: NOW, key: 'k' });
    expect(first).toEqual({ nominalMs: NOW, effectiveMs: NOW + compiled.offsetMs });
    expect(compiled.offsetMs).toBeGreaterThan(0);
    const at = first!.effectiveMs + 10_000;
    expect(misfire({ mode: 'skip' }, compiled, NOW - 1, NOW, at, 10_000)).toMatchObject({ fire: 1, dropped: 0 });
    expect(misfire({ mode: 'skip' }, compiled, NOW - 1, NOW, at + 1, 10_000)).toMatchObject({ fire: 0, dropped: 1 });
  });
});

describe('bounds', () => {
  test('a maximum count is an end time at the n-th occurrence after creation', () => {
    const count = (schedule: Schedule, maxCount: number) =>
      normalSchedule(schedule, { maxCount }, { createdMs: NOW }).bounds;
    expect(count({ kind: 'rate', everyMs: 1_000 }, 1_000_000)).toEqual({ endMs: NOW + 1_000_000_000 });
    expect(count({ kind: 'cron', expression: '* * * * * *', zone: 'America/New_York' }, 1_000_000)).toEqual({
      endMs: NOW + 1_000_000_000,
    });
    expect(count(daily, 3)).toEqual({ endMs: Date.parse('2027-01-03T08:00:00Z') });
    // Fewer than that: no end is needed.
    expect(count({ kind: 'once', atMs: NOW + 5 }, 2)).toEqual({});
    expect(count({ kind: 'cron', expression: '0 0 29 2 *' }, 1_000_000)).toEqual({});
  });

  test.each<[string, ScheduleBounds]>([
    ['bounds.startMs', { startMs: -1 }],
    ['bounds.startMs', { startMs: 0.5 }],
    ['bounds.endMs', { endMs: 253_402_300_800_000 }],
    ['bounds.endMs', { startMs: 10, endMs: 9 }],
    ['bounds.maxCount', { maxCount: 0 }],
    ['bounds.maxCount', { maxCount: 1_000_001 }],
    ['bounds.spreadMs', { spreadMs: 0 }],
    ['bounds.calendars', { calendars: 'holidays' as never }],
    ['bounds.calendars', { calendars: Array.from({ length: 9 }, () => 'x') }],
  ])('refused: %s %j', (field, bounds) => {
    expect(() => compileSchedule(daily, bounds, { createdMs: NOW, key: 'k' })).toThrow(
      expect.objectContaining({ code: 'schedule-invalid', field }),
    );
  });

  test.each<[string, unknown]>([
    ['schedule.kind', undefined],
    ['schedule.kind', { kind: 'delay' }],
    ['schedule.atMs', { kind: 'once', atMs: 253_402_300_800_000 }],
    ['schedule.atMs', { kind: 'once', atMs: '2027-01-01' }],
    ['schedule.anchorMs', { kind: 'rate', everyMs: 1_000, anchorMs: -1 }],
    ['schedule.gap', { kind: 'cron', expression: '* * * * *', gap: 'fire-before' }],
    ['schedule.overlap', { kind: 'cron', expression: '* * * * *', overlap: 'second' }],
    ['schedule.expression', { kind: 'cron' }],
  ])('refused: %s %j', (field, schedule) => {
    expect(() => compileSchedule(schedule as Schedule, {}, { createdMs: NOW })).toThrow(
      expect.objectContaining({ code: 'schedule-invalid', field }),
    );
  });

  test('without an occurrence, the refusal names the end that is over, or else the schedule', () => {
    const refusal = (schedule: Schedule, bounds: ScheduleBounds) => {
      const compiled = compileSchedule(schedule, bounds, { createdMs: NOW });
      return expect(() => firstOccurrence(compiled, schedule, NOW));
    };
    const code = 'schedule-impossible';
    const over = { code, field: 'bounds.endMs', token: '2027-01-01T00:00:00Z' };
    refusal(daily, { endMs: NOW }).toThrow(expect.objectContaining(over));
    refusal({ kind: 'rate', everyMs: 1_000 }, { endMs: NOW }).toThrow(expect.objectContaining(over));
    const of2026: Schedule = { kind: 'cron', expression: '0 0 9 * * ? 2026' };
    const named = { code, field: 'schedule.expression', token: of2026.expression };
    refusal(of2026, {}).toThrow(expect.objectContaining(named));
    refusal(of2026, { endMs: NOW + 1 }).toThrow(expect.objectContaining(named));
  });

  test('the greatest time is the last occurrence of everything', () => {
    const last = 253_402_300_799_999;
    const rate = compileSchedule({ kind: 'rate', everyMs: 1_000, anchorMs: last }, {}, { createdMs: 0 });
    expect([rate.next(0), rate.next(last), rate.count(0, Number.MAX_SAFE_INTEGER)]).toEqual([last, -1, 1]);
    const cron = compileSchedule({ kind: 'cron', expression: '* * * * * *' }, {}, { createdMs: 0 });
    expect([cron.next(last - 1_000), cron.next(last)]).toEqual([last - 999, -1]);
  });
});
