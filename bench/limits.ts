/**
 * What each benchmark must show, in one table: a result outside of it ends the command with exit code 1. Rows hold for the
 * load that they name; a smaller one, as it is used while working, is judged by what must always be 0.
 */
import type { Options } from './options.ts';
import { numbersOf, type Result } from './report/result.ts';

interface Bound {
  /** Path in the result. */
  path: string;
  least?: number;
  most?: number;
}

interface Row {
  bench: string;
  what: string;
  holds(config: Options): boolean;
  bounds: readonly Bound[];
}

export interface Fault {
  path: string;
  told: string;
}

const perSecond = ({ jobs, periodMs }: Options): number => (jobs * 1_000) / periodMs;
const late = (p99: number, max: number): Bound[] => [
  { path: 'lateness_ms.p99', most: p99 },
  { path: 'lateness_ms.max', most: max },
];
const compact = ({ envelope }: Options): boolean => envelope === 'compact';
const once = ({ delivery }: Options): boolean => delivery === 'exactly-once';

/** What no run may have, whatever its size. */
const ALWAYS: readonly Bound[] = ['lost', 'duplicated', 'early', 'unexpected', 'disordered'].map((path) => ({
  path,
  most: 0,
}));

const ROWS: readonly Row[] = [
  {
    bench: 'sustained',
    what: '1,000,000/s compact, at-least-once',
    holds: (c) => compact(c) && !once(c) && perSecond(c) >= 1_000_000,
    bounds: [{ path: 'fired_per_s', least: 1_000_000 }, ...late(100, 1_000)],
  },
  {
    bench: 'sustained',
    what: '900,000/s compact, exactly-once',
    holds: (c) => compact(c) && once(c) && perSecond(c) >= 900_000,
    bounds: [{ path: 'fired_per_s', least: 900_000 }, ...late(200, 1_000)],
  },
  {
    bench: 'sustained',
    what: '500,000/s compact, at-least-once',
    holds: (c) => compact(c) && !once(c) && perSecond(c) === 500_000,
    bounds: late(30, 250),
  },
  {
    bench: 'sustained',
    what: '500,000/s compact, exactly-once',
    holds: (c) => compact(c) && once(c) && perSecond(c) === 500_000,
    bounds: late(100, 250),
  },
  {
    bench: 'sustained',
    what: '500,000/s CloudEvents, exactly-once',
    holds: (c) => !compact(c) && once(c) && perSecond(c) >= 500_000,
    bounds: [{ path: 'fired_per_s', least: 500_000 }, ...late(200, 1_000)],
  },
  {
    bench: 'saturation',
    what: 'the highest rate held against the raw limit',
    holds: ({ step, rawS }) => step >= 100_000 && rawS >= 10,
    bounds: [{ path: 'ratio_to_raw', least: 0.35 }],
  },
  {
    bench: 'burst',
    what: '1,000,000 at one instant',
    holds: ({ jobs }) => jobs >= 1_000_000,
    bounds: [{ path: 'last_after_ms', most: 1_000 }],
  },
  {
    bench: 'precision',
    what: '10,000/s, at-least-once',
    holds: (c) => !once(c) && perSecond(c) === 10_000,
    bounds: late(5, 50),
  },
  {
    bench: 'precision',
    what: '10,000/s, exactly-once',
    holds: (c) => once(c) && perSecond(c) === 10_000,
    bounds: late(20, 100),
  },
  {
    bench: 'oneshot',
    what: 'one-shots fired, finished and recorded',
    holds: ({ rate }) => rate >= 60_000,
    bounds: [{ path: 'recorded_per_s', least: 60_000 }],
  },
  {
    bench: 'register',
    what: '1,000,000 jobs of all kinds',
    holds: ({ jobs }) => jobs >= 1_000_000,
    bounds: [
      { path: 'registered_per_s', least: 40_000 },
      { path: 'memory_growth', most: 1.25 },
    ],
  },
  {
    bench: 'scale',
    what: 'cost does not grow with idle jobs',
    holds: ({ levels, rate }) => rate >= 10_000 && Math.max(...levels) >= 1_000_000,
    bounds: [
      { path: 'cost_growth', most: 1.1 },
      { path: 'rest_cpu_share', most: 0.05 },
      { path: 'worker_memory_growth', most: 1.25 },
    ],
  },
  {
    bench: 'scale-workers',
    what: 'cost does not grow with workers',
    holds: ({ levels }) => levels.length > 1,
    bounds: [{ path: 'cost_growth', most: 1.25 }],
  },
  {
    bench: 'embedded',
    what: 'durable triggers on SQLite',
    holds: (c) => perSecond(c) >= 100_000,
    bounds: [{ path: 'fired_per_s', least: 100_000 }],
  },
  {
    bench: 'api',
    what: 'single creates at 2,000/s',
    holds: ({ rate }) => rate >= 2_000,
    bounds: [
      { path: 'create_ms.p99', most: 20 },
      { path: 'created_per_s', least: 1_980 },
      { path: 'failed', most: 0 },
    ],
  },
];

/** What a result misses, as sentences; none when all holds. */
export function faultsOf(result: Result): Fault[] {
  const rows = ROWS.filter(({ bench, holds }) => bench === result.name && holds(result.config));
  const numbers = numbersOf(result);
  const always: Row = { bench: result.name, what: 'always', holds: () => true, bounds: ALWAYS };
  return [always, ...rows].flatMap(({ what, bounds }) =>
    bounds.flatMap(({ path, least, most }) => {
      const value = numbers.get(path);
      if (value === undefined) return what === 'always' ? [] : [{ path, told: `${what}: there is no ${path}` }];
      if (least !== undefined && value < least)
        return [{ path, told: `${what}: ${path} is ${value}, must be >= ${least}` }];
      if (most !== undefined && value > most)
        return [{ path, told: `${what}: ${path} is ${value}, must be <= ${most}` }];
      return [];
    }),
  );
}
