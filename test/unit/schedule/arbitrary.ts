import fc from 'fast-check';
import type { CalendarDefinition, Schedule, ScheduleBounds } from '../../../src/core/schedule/types.ts';

/** Zones with clocks of every kind: none, half-hour, 2 h, negative saving, changes at midnight, fixed. */
const ZONES = [
  'UTC',
  'Europe/Dublin',
  'America/New_York',
  'America/Santiago',
  'Australia/Lord_Howe',
  'Antarctica/Troll',
  'Africa/Casablanca',
  'Asia/Gaza',
  'Pacific/Chatham',
  '-03:30',
];

export const DAY_MS = 86_400_000;
/** Instants from 2024 to 2040, UTC ms. */
export const instants = fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2040, 0, 1) });

function field(min: number, max: number): fc.Arbitrary<string> {
  const value = fc.integer({ min, max });
  const item = fc.oneof(
    value.map(String),
    fc.tuple(value, value).map(([a, b]) => `${a}-${b}`),
    fc.tuple(value, fc.integer({ min: 1, max: 9 })).map(([a, step]) => `${a}/${Math.min(step, max - min)}`),
  );
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant('*') },
    { weight: 1, arbitrary: fc.integer({ min: 2, max: Math.min(15, max - min) }).map((step) => `*/${step}`) },
    { weight: 3, arbitrary: fc.array(item, { minLength: 1, maxLength: 3 }).map((items) => items.join(',')) },
  );
}

const date = fc.oneof(
  { weight: 3, arbitrary: fc.constant('*') },
  { weight: 2, arbitrary: field(1, 28) },
  { weight: 1, arbitrary: fc.constantFrom('L', 'L-2', 'LW', '15W', '1W,L') },
);
const weekday = fc.oneof(
  { weight: 4, arbitrary: fc.constant('*') },
  { weight: 2, arbitrary: field(0, 6) },
  { weight: 1, arbitrary: fc.constantFrom('5L', '1#2', 'SUN', 'MON-FRI') },
);

/** Cron schedules that have occurrences for ever, seconds included. */
export const crons: fc.Arbitrary<Schedule & { kind: 'cron' }> = fc
  .record({
    fields: fc.tuple(
      fc.constantFrom('0', '*/20', '30', '7,42'),
      field(0, 59),
      field(0, 23),
      date,
      fc.constant('*'),
      weekday,
    ),
    zone: fc.constantFrom(...ZONES),
    gap: fc.constantFrom('fire-after' as const, 'skip' as const),
    overlap: fc.constantFrom('auto' as const, 'first' as const, 'both' as const),
  })
  // Where both day fields must match (a step on a star beside a restricted one) they may have no day in common.
  .filter(
    ({ fields: [, , , date, , weekday] }) =>
      date === '*' || weekday === '*' || weekday === 'MON-FRI' || !(date + weekday).includes('*'),
  )
  .map(({ fields, ...rest }) => ({ kind: 'cron', expression: fields.join(' '), ...rest }));

const rates: fc.Arbitrary<Schedule> = fc.record({
  kind: fc.constant('rate' as const),
  everyMs: fc.oneof(fc.integer({ min: 100, max: 10_000 }), fc.integer({ min: 100, max: 40 * DAY_MS })),
  anchorMs: instants,
});

export const schedules: fc.Arbitrary<Schedule> = fc.oneof(
  { weight: 3, arbitrary: crons },
  { weight: 2, arbitrary: rates },
  { weight: 1, arbitrary: instants.map((atMs): Schedule => ({ kind: 'once', atMs })) },
);

function clock(min: number, max: number, minute: number): fc.Arbitrary<string> {
  return fc.integer({ min, max }).map((hour) => `${String(hour).padStart(2, '0')}:${minute}`);
}

/** Over midnight or in the morning; noon is never excluded, so that something remains. */
const times = fc.oneof(
  fc.record({ from: clock(12, 23, 30), to: clock(0, 11, 45) }),
  fc.record({ from: clock(0, 4, 30), to: clock(5, 11, 15) }),
);

export const calendars: fc.Arbitrary<CalendarDefinition> = fc
  .record({
    zone: fc.constantFrom(...ZONES),
    dates: fc.array(
      instants.map((ms) => new Date(ms).toISOString().slice(0, 10)),
      { maxLength: 3 },
    ),
    yearly: fc.subarray(['12-25', '02-29', '03-31', '10-25']),
    ranges: fc.array(
      instants.map((ms) => ({
        from: new Date(ms).toISOString().slice(0, 10),
        to: new Date(ms + 9 * DAY_MS).toISOString().slice(0, 10),
      })),
      { maxLength: 2 },
    ),
    weekdays: fc.subarray(['sun', 'mon', 'sat'] as const),
    times: fc.array(times, { maxLength: 2 }),
  })
  .filter(({ zone: _, ...rules }) => Object.values(rules).some((rule) => rule.length > 0));

/** Start and end around a time, each there or not. */
export function boundsAround(ms: number): fc.Arbitrary<ScheduleBounds> {
  return fc.record(
    {
      startMs: fc.integer({ min: ms - 3 * DAY_MS, max: ms + 3 * DAY_MS }),
      endMs: fc.integer({ min: ms + 3 * DAY_MS, max: ms + 30 * DAY_MS }),
    },
    { requiredKeys: [] },
  );
}
