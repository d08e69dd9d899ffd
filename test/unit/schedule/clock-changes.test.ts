/**
 * Walks every zone minute by minute over each of its clock changes from 2020 to 2040 and compares the engine's occurrences
 * with those of a walker that shares nothing with it: offsets from the committed table, local dates from `Date`, a matcher of
 * its own, and the policy of the cases taken literally, minute by minute.
 */
import { describe, expect, test } from 'vitest';
import { compileCron } from '../../../src/core/schedule/cron/compile.ts';
import { NO_OCCURRENCE, nominalTimes } from '../../../src/core/schedule/schedule.ts';
import type { GapPolicy, OverlapPolicy } from '../../../src/core/schedule/types.ts';
import { readZoneTable, type ZoneRows } from '../../oracle/zone-table.ts';

const MINUTE = 60;
/** Walked on both sides of a change, in seconds; changes are by 3 h at most in these years. */
const WINDOW = 8 * 3600;
const FROM = Date.UTC(2020, 0, 1) / 1000;
const UNTIL = Date.UTC(2041, 0, 1) / 1000;

interface Walked {
  expression: string;
  gap?: GapPolicy;
  overlap?: OverlapPolicy;
}

const SCHEDULES: Walked[] = [
  // Wildcard: second, minute or hour starts with a star.
  { expression: '*/13 * * * *' },
  { expression: '20 * * * *' },
  { expression: '*/20 1,2,3 * * *' },
  { expression: '* 0,1,2,3 * * *', overlap: 'first' },
  { expression: '15,45 */2 * * *', gap: 'fire-after' },
  // Fixed time.
  { expression: '0 0 * * *' },
  { expression: '30 1 * * *' },
  { expression: '0 2 * * *', overlap: 'both' },
  { expression: '5,35,50 0,1,2,3,4,22,23 * * *' },
  { expression: '5,35,50 0,1,2,3,4,22,23 * * *', gap: 'skip' },
  { expression: '5,35,50 0,1,2,3,4,22,23 * * *', overlap: 'both' },
  { expression: '59 0,1,2,3,22,23 * * 0' },
  { expression: '0 0,2,3 1,8,15,29,31 * *', overlap: 'first' },
];

/** The fields of an expression as sets of numbers, null for a star: minute, hour, date, month, weekday. */
function setsOf(expression: string): (Set<number> | null)[] {
  return expression.split(' ').map((field) => {
    if (field === '*') return null;
    const step = /^\*\/(\d+)$/.exec(field);
    if (step)
      return new Set(Array.from({ length: 60 }, (_, value) => value).filter((value) => value % Number(step[1]) === 0));
    return new Set(field.split(',').map(Number));
  });
}

/** Minute, hour, date, month and weekday of a local time that is given in seconds as if it were UTC. */
function fieldsOf(local: number): number[] {
  const date = new Date(local * 1000);
  return [date.getUTCMinutes(), date.getUTCHours(), date.getUTCDate(), date.getUTCMonth() + 1, date.getUTCDay()];
}

function matches(sets: (Set<number> | null)[], fields: number[]): boolean {
  // Of the schedules above none restricts both day fields, so a plain "and" is right.
  return sets.every((set, i) => set === null || set.has(fields[i]!));
}

/** One minute of the walk: its local fields, those of the minutes skipped just before it, and whether it comes again. */
interface Step {
  at: number;
  fields: number[];
  skipped: number[][];
  repeated: boolean;
}

function walk(rows: ZoneRows, from: number, until: number): Step[] {
  const steps: Step[] = [];
  const seen = new Set<number>();
  let row = 0;
  let before: number | undefined;
  for (let at = from; at <= until; at += MINUTE) {
    while (row + 1 < rows.length && rows[row + 1]![0] <= at) row++;
    const local = at + rows[row]![1];
    const skipped: number[][] = [];
    for (let lost = (before ?? local) + MINUTE; lost < local; lost += MINUTE) skipped.push(fieldsOf(lost));
    steps.push({ at, fields: fieldsOf(local), skipped, repeated: seen.has(local) });
    seen.add(local);
    before = local;
  }
  return steps;
}

function expected({ expression, gap, overlap }: Walked, steps: Step[]): number[] {
  const sets = setsOf(expression);
  const wildcard = expression
    .split(' ')
    .slice(0, 2)
    .some((field) => field.startsWith('*'));
  const bothPasses = overlap === 'both' || (overlap !== 'first' && wildcard);
  const fireAfter = gap !== 'skip' && !wildcard;
  return steps
    .filter(
      ({ fields, skipped, repeated }) =>
        (matches(sets, fields) && (bothPasses || !repeated)) ||
        (fireAfter && skipped.some((lost) => matches(sets, lost))),
    )
    .map(({ at }) => at);
}

/** Instants right at a change, UTC ms: what begins with the change is after the first two of them and not after the others. */
function edges(at: number): number[] {
  return [at * 1000 - 1000, at * 1000 - 1, at * 1000, at * 1000 + 1];
}

/** The engine's answers around a change, and below the same by the walk: times, and at each edge the next, last and count. */
function asked(schedule: Walked, zone: string, at: number) {
  const cron = compileCron({ kind: 'cron', zone, ...schedule }, undefined);
  const [from, until] = [(at - WINDOW) * 1000 - 1, (at + WINDOW) * 1000];
  return {
    times: nominalTimes(cron, from, until, 10_000),
    edges: edges(at).map((edge) => [
      Math.min(until, cron.search(edge)),
      cron.last(edge, from),
      cron.last(at * 1000, edge),
      cron.count(from, edge),
      cron.count(edge, until),
    ]),
  };
}

function answers(wanted: number[], at: number): ReturnType<typeof asked> {
  const times = wanted.map((second) => second * 1000);
  return {
    times,
    edges: edges(at).map((edge) => {
      const before = times.filter((ms) => ms <= edge);
      return [
        times[before.length] ?? (at + WINDOW) * 1000,
        before.at(-1) ?? NO_OCCURRENCE,
        times.findLast((ms) => ms > edge && ms <= at * 1000) ?? NO_OCCURRENCE,
        before.length,
        times.length - before.length,
      ];
    }),
  };
}

const table = readZoneTable();
const changing = [...table.zones]
  .map(([name, rows]) => ({ name, rows, changes: rows.slice(1).filter(([at]) => at >= FROM && at < UNTIL) }))
  .filter(({ changes }) => changes.length > 0);

describe(`every clock change from 2020 to 2040, offsets by ${table.maker}`, () => {
  test('the walk covers what it says', () => {
    const changes = changing.reduce((sum, zone) => sum + zone.changes.length, 0);
    console.log(`${changing.length} zones, ${changes} clock changes, ${SCHEDULES.length} schedules at each`);
    expect(changing.length).toBeGreaterThan(200);
    expect(changes).toBeGreaterThan(8_000);
    // Changes happen on whole minutes, so a walk by minutes sees each.
    expect(
      changing.every((zone) => zone.changes.every(([at, offset]) => at % MINUTE === 0 && offset % MINUTE === 0)),
    ).toBe(true);
  });

  const byRegion = Map.groupBy(changing, ({ name }) => name.split('/')[0]!);
  for (const [region, zones] of byRegion) {
    test(`${region}: ${zones.length} zones`, { timeout: 120_000 }, () => {
      for (const { name, rows, changes } of zones) {
        for (const [at] of changes) {
          const steps = walk(rows, at - WINDOW, at + WINDOW);
          for (const schedule of SCHEDULES) {
            const wanted = expected(schedule, steps);
            const own = asked(schedule, name, at);
            const right = answers(wanted, at);
            // A plain comparison first: millions of `expect` would take longer than the walk.
            if (JSON.stringify(own) !== JSON.stringify(right))
              expect({ name, schedule, ...own }).toEqual({ name, schedule, ...right });
          }
        }
      }
    });
  }
});
