import { describe, expect, test } from 'vitest';
import { formatInstant } from '../../../src/core/schedule/iso.ts';
import { misfire } from '../../../src/core/schedule/misfire.ts';
import {
  type CompiledSchedule,
  compileSchedule,
  firstOccurrence,
  nominalTimes,
  normalSchedule,
} from '../../../src/core/schedule/schedule.ts';
import type { Schedule, ScheduleBounds } from '../../../src/core/schedule/types.ts';
import { nextInstants } from './case-file.ts';

const YEAR_OF_SECONDS = 31_536_000;

function compile(schedule: Schedule, created: string, bounds: ScheduleBounds = {}): CompiledSchedule {
  return compileSchedule(schedule, bounds, { createdMs: Date.parse(created) });
}

function instants(schedule: CompiledSchedule, after: string, n: number): string[] {
  return nominalTimes(schedule, Date.parse(after), Number.POSITIVE_INFINITY, n).map(formatInstant);
}

/** Shortest of five runs, in ms: the others were disturbed by somebody else. */
function shortestMs(run: () => void): number {
  return Math.min(
    ...Array.from({ length: 5 }, () => {
      const begun = performance.now();
      run();
      return performance.now() - begun;
    }),
  );
}

// That nothing fires early and no timer overflows while these wait is a test of the wheel.
test('O-IV-01: far times keep their exact millisecond', () => {
  const now = Date.parse('2027-01-01T00:00:00.123Z');
  for (const delay of [2_147_483_647, 2_147_483_648, 30 * 86_400_000, 400 * 86_400_000]) {
    const once = compileSchedule({ kind: 'once', atMs: now + delay }, {}, { createdMs: now });
    expect(once.next(now)).toBe(now + delay);
    expect(once.next(now + delay - 1)).toBe(now + delay);
    expect(once.next(now + delay)).toBe(-1);
  }
  expect(nextInstants({ kind: 'cron', expression: '0 4 1 1 *' }, '2027-03-07T00:00:00Z', 1)).toEqual([
    '2028-01-01T04:00:00Z',
  ]);
});

describe('O-IV-02: start of a fixed rate, now 2027-01-10T10:00:00Z', () => {
  const NOW = '2027-01-10T10:00:00Z';
  const FUTURE = ['2027-01-10T17:24:10.500Z', '2027-01-10T19:24:10.500Z', '2027-01-10T21:24:10.500Z'];
  const every = { kind: 'rate', everyMs: 7_200_000 } as const;

  test('a start in the future is the first fire, given as anchor or as start', () => {
    const anchorMs = Date.parse(FUTURE[0]!);
    expect(instants(compile({ ...every, anchorMs }, NOW), NOW, 3)).toEqual(FUTURE);
    expect(instants(compile(every, NOW, { startMs: anchorMs }), NOW, 3)).toEqual(FUTURE);
  });

  test('from a start in the past the grid goes on', () => {
    const anchorMs = Date.parse('2027-01-01T00:00:07Z');
    const schedule = compile({ ...every, anchorMs }, NOW);
    expect(instants(schedule, NOW, 2)).toEqual(['2027-01-10T10:00:07Z', '2027-01-10T12:00:07Z']);
    expect(schedule.count(anchorMs - 1, Date.parse(NOW))).toBe(113);
  });

  test('without either the first fire is one period after creation', () => {
    expect(instants(compile(every, NOW), NOW, 2)).toEqual(['2027-01-10T12:00:00Z', '2027-01-10T14:00:00Z']);
  });
});

// That a refused update leaves the old schedule working is a test of the API.
const NOT_PERIODS: unknown[] = [
  ...[0, -1, -0, 0.4, 1e-9, 'NaN', null, Number.NaN, '5000', ' 1 day', 'every day', 2 ** 53, 1e21, true, []],
  ...[undefined, Number.POSITIVE_INFINITY, 99, 10 * 366 * 86_400_000 + 1, {}, 100.5],
];
test.each(NOT_PERIODS.map((value) => [String(JSON.stringify(value)), value]))(
  'O-IV-03: the period %s is refused',
  (_, value) => {
    expect(() => compile({ kind: 'rate', everyMs: value as number }, '2027-01-01T00:00:00Z')).toThrow(
      expect.objectContaining({ code: 'schedule-invalid', field: 'schedule.everyMs' }),
    );
  },
);

test('O-IV-03: the least and the greatest period are taken', () => {
  for (const everyMs of [100, 10 * 366 * 86_400_000]) {
    expect(compileSchedule({ kind: 'rate', everyMs }, {}, { createdMs: 5 }).next(5)).toBe(5 + everyMs);
  }
});

describe('O-IV-04: down from 00:10:00Z to 01:00:30Z', () => {
  const schedule = compile(
    { kind: 'rate', everyMs: 420_000, anchorMs: Date.parse('2026-12-01T00:00:00Z') },
    '2026-12-01T00:00:00Z',
  );
  const from = Date.parse('2026-12-01T00:10:00Z');
  const now = Date.parse('2026-12-01T01:00:30Z');
  const decide = (mode: 'once' | 'skip' | 'all') => misfire({ mode }, schedule, from, now, now, 10_000);
  const minutesOf = ({ afterMs, upToMs }: { afterMs: number; upToMs: number }) =>
    nominalTimes(schedule, afterMs, upToMs, 100).map((at) => new Date(at).getUTCMinutes());

  test('skip fires nothing', () => {
    expect(decide('skip')).toMatchObject({ fire: 0, late: 0, dropped: 7 });
  });

  test('once fires 00:56', () => {
    expect(decide('once')).toMatchObject({ fire: 1, late: 1, dropped: 6 });
    expect(minutesOf(decide('once'))).toEqual([56]);
  });

  test('all fires the seven in order', () => {
    expect(decide('all')).toMatchObject({ fire: 7, late: 7, dropped: 0 });
    expect(minutesOf(decide('all'))).toEqual([14, 21, 28, 35, 42, 49, 56]);
  });

  test('the grid does not move', () => {
    expect(formatInstant(schedule.next(now))).toBe('2026-12-01T01:03:00Z');
  });
});

// Restarts and slow handlers cannot move what is computed from the anchor alone; the wheel has a test of its own lateness.
describe('O-IV-06: a fixed rate is counted from its anchor', () => {
  test('every 12 h from creation, whatever the instant that is asked from', () => {
    const { schedule } = normalSchedule(
      { kind: 'rate', everyMs: 43_200_000 },
      {},
      { createdMs: Date.parse('2027-02-01T09:30:00Z') },
    );
    const expected = ['2027-02-01T21:30:00Z', '2027-02-02T09:30:00Z', '2027-02-02T21:30:00Z'];
    for (const restart of ['2027-02-01T09:30:00Z', '2027-02-01T15:00:00Z', '2027-02-01T20:59:59Z']) {
      expect(instants(compile(schedule, restart), restart, 3)).toEqual(expected);
    }
  });

  test('fire n of 1,000 is start + n * 5000', () => {
    const schedule = compile({ kind: 'rate', everyMs: 5_000, anchorMs: 1_000 }, '2027-01-01T00:00:00Z');
    const fires = nominalTimes(schedule, 0, Number.POSITIVE_INFINITY, 1_000);
    expect(fires.every((at, n) => at === 1_000 + n * 5_000)).toBe(true);
    expect(fires.at(-1)! - fires[0]!).toBe(4_995_000);
  });

  test('24 h are 24 h of real time over a clock change', () => {
    const anchorMs = Date.parse('2027-03-13T14:00:00Z');
    const schedule = compile({ kind: 'rate', everyMs: 86_400_000, anchorMs }, '2027-03-01T00:00:00Z');
    expect(instants(schedule, '2027-03-13T14:00:00Z', 1)).toEqual(['2027-03-14T14:00:00Z']);
  });
});

describe('O-IV-07: many missed slots are computed, not walked', () => {
  const from = Date.parse('2027-01-01T00:00:00Z');
  const now = from + YEAR_OF_SECONDS * 1_000;
  const seconds: [string, Schedule][] = [
    ['rate', { kind: 'rate', everyMs: 1_000, anchorMs: 0 }],
    ['cron UTC', { kind: 'cron', expression: '* * * * * *' }],
    ['cron New York', { kind: 'cron', expression: '* * * * * *', zone: 'America/New_York' }],
  ];

  test.each(seconds)('a year of 1 s slots, %s, in less than 50 ms', (_, schedule) => {
    const compiled = compile(schedule, '2027-01-01T00:00:00Z');
    expect(compiled.count(from, now)).toBe(YEAR_OF_SECONDS);
    for (const mode of ['once', 'skip', 'all'] as const) {
      const decide = () => misfire({ mode, maxNumber: 1_000 }, compiled, from, now, now, 10_000);
      const { late, dropped, fire } = decide();
      expect(late).toBe({ once: 1, skip: 0, all: 1_000 }[mode]);
      // The last 10 s and the present second are no misfires.
      expect(fire).toBe(late + 11);
      expect(late + dropped + 11).toBe(YEAR_OF_SECONDS);
      expect(shortestMs(decide)).toBeLessThan(50);
    }
  });

  test('a minute cron paused for 3 days: at most one make-up fire, then the next slot', () => {
    const cron = compile({ kind: 'cron', expression: '* * * * *', zone: 'Europe/Madrid' }, '2027-01-01T00:00:00Z');
    const resumed = from + 3 * 86_400_000 + 30_000;
    expect(cron.count(from, resumed)).toBe(4_320);
    expect(misfire({ mode: 'once' }, cron, from, resumed, resumed, 10_000)).toMatchObject({ fire: 1, dropped: 4_319 });
    expect(cron.next(resumed)).toBe(resumed + 30_000);
    expect(firstOccurrence(cron, { kind: 'cron', expression: '* * * * *' }, resumed)).toBe(resumed + 30_000);
  });

  test('an interval shortened from 1 day to 1 s, last fire a day ago', () => {
    const shortened = compile({ kind: 'rate', everyMs: 1_000, anchorMs: from }, '2027-01-01T00:00:00Z');
    const changed = from + 86_400_000 + 500;
    expect(misfire({ mode: 'once' }, shortened, from, changed, changed, 10_000)).toMatchObject({ late: 1 });
    expect(shortened.next(changed)).toBe(changed + 500);
  });
});
