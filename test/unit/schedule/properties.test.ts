import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Calendar } from '../../../src/core/schedule/calendar.ts';
import { compileCron } from '../../../src/core/schedule/cron/compile.ts';
import { misfire } from '../../../src/core/schedule/misfire.ts';
import {
  type CompiledSchedule,
  compileSchedule,
  NO_OCCURRENCE,
  nominalTimes,
  normalSchedule,
} from '../../../src/core/schedule/schedule.ts';
import type { CalendarDefinition } from '../../../src/core/schedule/types.ts';
import { readZoneTable } from '../../oracle/zone-table.ts';
import { boundsAround, calendars, crons, DAY_MS, instants, schedules } from './arbitrary.ts';

/** Occurrences that one walk may take: denser spans are shortened to it. */
const WALK_MAX = 5_000;

/** A schedule with bounds, asked over (afterMs, upToMs]. */
const questions = instants.chain((afterMs) =>
  fc.record({
    schedule: schedules,
    bounds: boundsAround(afterMs),
    calendar: fc.option(calendars, { nil: undefined }),
    afterMs: fc.constant(afterMs),
    spanMs: fc.oneof(fc.integer({ min: 0, max: DAY_MS }), fc.integer({ min: 0, max: 60 * DAY_MS })),
  }),
);
type Question = typeof questions extends fc.Arbitrary<infer T> ? T : never;

function compiled({ schedule, bounds, calendar }: Question): CompiledSchedule {
  if (!calendar) return compileSchedule(schedule, bounds, { createdMs: 0 });
  const excluded = new Calendar(calendar);
  return compileSchedule(schedule, { ...bounds, calendars: ['holidays'] }, { createdMs: 0, calendar: () => excluded });
}

/** All occurrences of a question by `next` alone, and the instant up to which they are known. */
function walked(schedule: CompiledSchedule, { afterMs, spanMs }: Question): { times: number[]; upToMs: number } {
  const times = nominalTimes(schedule, afterMs, afterMs + spanMs, WALK_MAX);
  return { times, upToMs: times.length === WALK_MAX ? times.at(-1)! : afterMs + spanMs };
}

describe('next, count and last agree', () => {
  test('next grows strictly, within start and end', () => {
    fc.assert(
      fc.property(questions, (question) => {
        const { times } = walked(compiled(question), question);
        let before = question.afterMs;
        for (const at of times) {
          expect(at).toBeGreaterThan(before);
          before = at;
        }
        const { startMs, endMs } = question.bounds;
        expect(times[0] ?? Infinity).toBeGreaterThanOrEqual(startMs ?? 0);
        expect(times.at(-1) ?? 0).toBeLessThanOrEqual(endMs ?? Infinity);
      }),
    );
  });

  test('count is the number of steps of next', () => {
    fc.assert(
      fc.property(questions, fc.integer({ min: 0, max: 100 }), (question, percent) => {
        const schedule = compiled(question);
        const { times, upToMs } = walked(schedule, question);
        expect(schedule.count(question.afterMs, upToMs)).toBe(times.length);
        const middle = question.afterMs + Math.floor(((upToMs - question.afterMs) * percent) / 100);
        expect(schedule.count(question.afterMs, middle)).toBe(times.filter((at) => at <= middle).length);
        expect(schedule.count(middle, upToMs)).toBe(times.filter((at) => at > middle).length);
      }),
    );
  });

  test('last is the last step of next', () => {
    fc.assert(
      fc.property(questions, fc.nat(), (question, pick) => {
        const schedule = compiled(question);
        const { times, upToMs } = walked(schedule, question);
        expect(schedule.last(upToMs, question.afterMs)).toBe(times.at(-1) ?? NO_OCCURRENCE);
        if (times.length === 0) return;
        const index = pick % times.length;
        expect(schedule.last(times[index]!, question.afterMs)).toBe(times[index]);
        expect(schedule.last(times[index]! - 1, question.afterMs)).toBe(times[index - 1] ?? NO_OCCURRENCE);
      }),
    );
  });

  test('a shared cron that remembers answers as one that does not', () => {
    fc.assert(
      fc.property(crons, fc.array(instants, { minLength: 2, maxLength: 30 }), (schedule, asked) => {
        const cron = compileCron(schedule, undefined);
        for (const at of [...asked, ...asked.map((ms) => ms + 1), ...asked])
          expect(cron.next(at)).toBe(cron.search(at));
      }),
    );
  });
});

describe('bounds', () => {
  test('start and end are inclusive to the millisecond', () => {
    fc.assert(
      fc.property(schedules, instants, (schedule, afterMs) => {
        const free = compileSchedule(schedule, {}, { createdMs: 0 });
        const [first, second, third] = nominalTimes(free, afterMs, Number.POSITIVE_INFINITY, 3);
        if (third === undefined) return;
        const from = (bounds: { startMs?: number; endMs?: number }) =>
          nominalTimes(compileSchedule(schedule, bounds, { createdMs: 0 }), afterMs, third, 3);
        expect(from({ startMs: second!, endMs: second! })).toEqual([second]);
        expect(from({ startMs: first! + 1, endMs: third - 1 })).toEqual([second]);
        expect(from({ startMs: second! + 1, endMs: third - 1 })).toEqual([]);
      }),
    );
  });

  test('a maximum count becomes the time of that occurrence as an end', () => {
    fc.assert(
      fc.property(questions, fc.integer({ min: 1, max: 40 }), (question, maxCount) => {
        const excluded = question.calendar && new Calendar(question.calendar);
        const context = { createdMs: question.afterMs, ...(excluded && { calendar: () => excluded }) };
        const bounds = { ...question.bounds, ...(excluded && { calendars: ['holidays'] }) };
        const all = nominalTimes(
          compileSchedule(question.schedule, bounds, context),
          question.afterMs,
          Infinity,
          maxCount + 1,
        );
        const normal = normalSchedule(question.schedule, { ...bounds, maxCount }, context);
        const limited = compileSchedule(normal.schedule, normal.bounds, context);
        expect(nominalTimes(limited, question.afterMs, Infinity, maxCount + 1)).toEqual(all.slice(0, maxCount));
        expect(normal.bounds.maxCount).toBeUndefined();
        if (all.length > maxCount) expect(normal.bounds.endMs).toBe(all[maxCount - 1]);
        expect(normalSchedule(normal.schedule, normal.bounds, context)).toEqual(normal);
      }),
      { numRuns: 50 },
    );
  });
});

describe('exclusion calendars', () => {
  const table = readZoneTable();
  const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

  /** Whether an instant is excluded, by the text of its local time; offsets from the committed table. */
  function isExcluded({ zone = 'UTC', ...rules }: CalendarDefinition, ms: number): boolean {
    const fixed = zone === '-03:30' ? -12_600 : undefined;
    const offset = fixed ?? table.zones.get(zone)!.findLast(([at]) => at * 1000 <= ms)![1];
    const text = new Date(ms + offset * 1000).toISOString();
    const [day, time] = [text.slice(0, 10), text.slice(11, 19)];
    return (
      rules.dates!.includes(day) ||
      rules.yearly!.includes(day.slice(5)) ||
      rules.ranges!.some(({ from, to }) => day >= from && day <= to) ||
      rules.weekdays!.some((name) => WEEKDAYS.indexOf(name) === new Date(`${day}T00:00:00Z`).getUTCDay()) ||
      rules.times!.some(({ from, to }) => (from < to ? time >= from && time < to : time >= from || time < to))
    );
  }

  test('what remains are the occurrences whose local time no rule covers', () => {
    fc.assert(
      fc.property(schedules, calendars, instants, (schedule, calendar, afterMs) => {
        const excluded = new Calendar(calendar);
        const upToMs = afterMs + 20 * DAY_MS;
        const free = nominalTimes(compileSchedule(schedule, {}, { createdMs: 0 }), afterMs, upToMs, WALK_MAX);
        const end = free.length === WALK_MAX ? free.at(-1)! : upToMs;
        const bounds = { calendars: ['holidays'] };
        const limited = compileSchedule(schedule, bounds, { createdMs: 0, calendar: () => excluded });
        const wanted = free.filter((ms) => !isExcluded(calendar, ms));
        expect(nominalTimes(limited, afterMs, end, WALK_MAX)).toEqual(wanted);
        expect(limited.count(afterMs, end)).toBe(wanted.length);
      }),
    );
  });
});

describe('misfires', () => {
  test('the decision is that of a walk over every occurrence', () => {
    const policies = fc.record(
      {
        mode: fc.constantFrom('once' as const, 'skip' as const, 'all' as const),
        maxAgeMs: fc.integer({ min: 0, max: 3 * DAY_MS }),
        maxNumber: fc.integer({ min: 0, max: 50 }),
      },
      { requiredKeys: ['mode'] },
    );
    fc.assert(
      fc.property(questions, policies, fc.integer({ min: 0, max: 60_000 }), (question, policy, misfireAfterMs) => {
        const schedule = compiled(question);
        const { times, upToMs } = walked(schedule, question);
        const nowMs = upToMs + (question.spanMs % 20_000);
        const isOld = (at: number) => nowMs - at > misfireAfterMs;
        let old = times.filter(isOld);
        if (policy.maxAgeMs !== undefined) old = old.filter((at) => nowMs - at <= policy.maxAgeMs!);
        if (policy.mode === 'skip') old = [];
        if (policy.mode === 'once') old = old.slice(-1);
        if (policy.mode === 'all' && policy.maxNumber !== undefined)
          old = policy.maxNumber === 0 ? [] : old.slice(-policy.maxNumber);
        const decision = misfire(policy, schedule, question.afterMs, upToMs, nowMs, misfireAfterMs);
        expect(nominalTimes(schedule, decision.afterMs, decision.upToMs, WALK_MAX)).toEqual([
          ...old,
          ...times.filter((at) => !isOld(at)),
        ]);
        expect(decision.late).toBe(old.length);
        expect(decision.fire + decision.dropped).toBe(times.length);
      }),
      { numRuns: 300 },
    );
  });
});
