import { parseArgs } from 'node:util';

/** What a benchmark is asked to do. Each has its own defaults; what stands here is what was given. */
export interface Options {
  jobs: number;
  periodMs: number;
  seconds: number;
  workers: number;
  wheels: number;
  partitions: number;
  envelope: 'compact' | 'cloudevents';
  delivery: 'at-least-once' | 'exactly-once';
  /** As the trigger topic's `compression.type` says. */
  compression: 'none' | 'lz4' | 'zstd';
  payloadBytes: number;
  /** Unjudged firing before the judged span, in s: the broker and the engine compile themselves meanwhile. */
  warmUpS: number;
  /** From the first line of the upload to the first trigger, in s; null: by the number of jobs. */
  leadS: number | null;
  /** Length of the raw measurement, in s; 0: none. */
  rawS: number;
  /** Triggers/s by which saturation and scale raise their load. */
  step: number;
  /** Lists of scale: idle jobs and workers. */
  levels: number[];
  rate: number;
  runs: number;
  json: string | null;
}

const OPTIONS = {
  jobs: { type: 'string' },
  period: { type: 'string' },
  seconds: { type: 'string' },
  workers: { type: 'string' },
  wheels: { type: 'string' },
  partitions: { type: 'string' },
  envelope: { type: 'string' },
  delivery: { type: 'string' },
  compression: { type: 'string' },
  payload: { type: 'string' },
  'warm-up': { type: 'string' },
  lead: { type: 'string' },
  raw: { type: 'string' },
  step: { type: 'string' },
  levels: { type: 'string' },
  rate: { type: 'string' },
  runs: { type: 'string' },
  json: { type: 'string' },
  help: { type: 'boolean' },
} as const;

/** The defaults that most benchmarks share. */
const DEFAULTS: Options = {
  jobs: 1_000_000,
  periodMs: 1_000,
  seconds: 60,
  workers: 1,
  wheels: 1,
  partitions: 8,
  envelope: 'compact',
  delivery: 'at-least-once',
  compression: 'none',
  payloadBytes: 32,
  warmUpS: 10,
  leadS: null,
  rawS: 10,
  step: 100_000,
  levels: [],
  rate: 10_000,
  runs: 1,
  json: null,
};

/** A mistake in how the command was called. */
export class UsageError extends Error {}

export interface Asked {
  name: string;
  rest: string[];
  help: boolean;
  /** The options, over the defaults of a benchmark. */
  over(own: Partial<Options>): Options;
}

export function readOptions(args: readonly string[]): Asked {
  let parsed: ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>;
  try {
    parsed = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
  const { values, positionals } = parsed;
  const [name = '', ...rest] = positionals;
  const given: Partial<Options> = {};
  const numbers = {
    jobs: 'jobs',
    period: 'periodMs',
    seconds: 'seconds',
    workers: 'workers',
    wheels: 'wheels',
    partitions: 'partitions',
    payload: 'payloadBytes',
    'warm-up': 'warmUpS',
    lead: 'leadS',
    raw: 'rawS',
    step: 'step',
    rate: 'rate',
    runs: 'runs',
  } as const;
  for (const [option, field] of Object.entries(numbers) as [keyof typeof numbers, (typeof numbers)['jobs']][]) {
    const text = values[option];
    if (text === undefined) continue;
    given[field] = number(option, text);
  }
  if (values.envelope !== undefined) given.envelope = choice('envelope', values.envelope, ['compact', 'cloudevents']);
  if (values.delivery !== undefined) {
    given.delivery = choice('delivery', values.delivery, ['at-least-once', 'exactly-once']);
  }
  if (values.compression !== undefined) {
    given.compression = choice('compression', values.compression, ['none', 'lz4', 'zstd']);
  }
  if (values.levels !== undefined) given.levels = values.levels.split(',').map((text) => number('levels', text));
  if (values.json !== undefined) given.json = values.json;
  return { name, rest, help: values.help ?? false, over: (own) => ({ ...DEFAULTS, ...own, ...given }) };
}

function number(option: string, text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new UsageError(`--${option} takes a number, not "${text}"`);
}

function choice<const T extends string>(option: string, text: string, choices: readonly T[]): T {
  const found = choices.find((one) => one === text);
  if (found === undefined) throw new UsageError(`--${option} takes ${choices.join(' or ')}, not "${text}"`);
  return found;
}
