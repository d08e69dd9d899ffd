import { parseArgs } from 'node:util';
import { CarillonError, carillonError } from '../core/errors.ts';
import { checkKey } from '../core/form/read.ts';
import { formatInstant, formatLocal, parseInstant } from '../core/schedule/iso.ts';
import { type PreviewedOccurrence, preview } from '../core/schedule/preview.ts';
import type { GapPolicy, OverlapPolicy, Schedule, ScheduleBounds } from '../core/schedule/types.ts';
import { zoneOf } from '../core/schedule/zones/zone.ts';

const USAGE = `Usage: carillon preview (--cron EXPR | --every MS | --at TIME) [options]

  --cron EXPR     5 fields (minute hour day month weekday), 6 (second first), 7 (year last) or a macro such as @daily
  --zone ZONE     IANA zone, Z or an offset such as +05:30 (default UTC)
  --gap POLICY    what a skipped local time does: fire-after (default) or skip
  --overlap POLICY  what a repeated local time does: auto (default), first or both
  --every MS      period of a fixed rate in ms
  --anchor TIME   first occurrence of the fixed rate (default: one period after --after)
  --at TIME       a single time
  --key KEY       key of the job, which H and the spread offset are chosen by
  --start TIME    first time allowed, inclusive
  --end TIME      last time allowed, inclusive
  --max-count N   at most N occurrences after --after
  --spread MS     width of the spread window in ms
  --after TIME    occurrences strictly after this (default: now)
  --count N       how many, 1 to 1000 (default 10)
  --json          a JSON array of nominal times

TIME is RFC 3339 with an offset, such as 2027-01-31T09:00:00Z.
`;

const OPTIONS = {
  cron: { type: 'string' },
  zone: { type: 'string' },
  gap: { type: 'string' },
  overlap: { type: 'string' },
  every: { type: 'string' },
  anchor: { type: 'string' },
  at: { type: 'string' },
  key: { type: 'string' },
  start: { type: 'string' },
  end: { type: 'string' },
  'max-count': { type: 'string' },
  spread: { type: 'string' },
  after: { type: 'string' },
  count: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values'];

/** Which option a field of an error came from. */
const OPTION_OF_FIELD: Readonly<Record<string, string>> = {
  'schedule.expression': '--cron',
  'schedule.zone': '--zone',
  'schedule.gap': '--gap',
  'schedule.overlap': '--overlap',
  'schedule.everyMs': '--every',
  'schedule.anchorMs': '--anchor',
  'schedule.atMs': '--at',
  'bounds.startMs': '--start',
  'bounds.endMs': '--end',
  'bounds.maxCount': '--max-count',
  'bounds.spreadMs': '--spread',
  count: '--count',
  '--key': '--key',
};

/** Prints the next occurrences of a schedule. Exit code 0, or 2 for wrong usage or input (with the reason on stderr). */
export function previewCommand(args: string[]): number {
  try {
    const { values } = parseArgs({ args, options: OPTIONS, strict: true, allowPositionals: false });
    if (values.help) {
      process.stdout.write(USAGE);
      return 0;
    }
    process.stdout.write(answer(values));
    return 0;
  } catch (error) {
    const reason = refusal(error);
    if (reason === undefined) throw error;
    process.stderr.write(`carillon preview: ${reason}\n`);
    return 2;
  }
}

function refusal(error: unknown): string | undefined {
  if (error instanceof CarillonError) {
    const option = OPTION_OF_FIELD[error.field ?? ''];
    return option ? `${option}: ${error.message}` : error.message;
  }
  // parseArgs: an unknown option, a missing value, a word too many.
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return code.startsWith('ERR_PARSE_ARGS') ? `${(error as Error).message}\n\n${USAGE}` : undefined;
}

function answer(values: Values): string {
  const afterMs = values.after === undefined ? Date.now() : parseInstant(values.after, '--after');
  if (values.key !== undefined) checkKey(values.key, '--key');
  const context = { createdMs: afterMs, ...(values.key !== undefined && { key: values.key }) };
  const count = values.count === undefined ? 10 : number(values.count);
  const occurrences = preview(scheduleOf(values), boundsOf(values), context, { afterMs, count });
  return values.json
    ? `${JSON.stringify(occurrences.map(({ nominalMs }) => formatInstant(nominalMs)))}\n`
    : table(occurrences, values.zone, count);
}

/** Options that belong to one kind of schedule; a zone may stand with each, for the table. */
const KIND_OF_OPTION = { gap: 'cron', overlap: 'cron', anchor: 'every' } as const;

function scheduleOf(values: Values): Schedule {
  const { cron, every, at, zone, gap, overlap, anchor } = values;
  if ([cron, every, at].filter((value) => value !== undefined).length !== 1) {
    throw carillonError('request-invalid', 'give one of --cron, --every and --at');
  }
  for (const [option, kind] of Object.entries(KIND_OF_OPTION)) {
    if (values[option as keyof typeof KIND_OF_OPTION] === undefined || values[kind] !== undefined) continue;
    throw carillonError('request-invalid', `--${option} goes with --${kind} only`);
  }
  zoneOf(zone);
  if (every !== undefined) {
    const everyMs = number(every);
    return { kind: 'rate', everyMs, ...(anchor !== undefined && { anchorMs: parseInstant(anchor, '--anchor') }) };
  }
  if (at !== undefined) return { kind: 'once', atMs: parseInstant(at, '--at') };
  return {
    kind: 'cron',
    expression: cron!,
    ...(zone !== undefined && { zone }),
    // Whether these are policies is checked with the schedule.
    ...(gap !== undefined && { gap: gap as GapPolicy }),
    ...(overlap !== undefined && { overlap: overlap as OverlapPolicy }),
  };
}

function boundsOf(values: Values): ScheduleBounds {
  return {
    ...(values.start !== undefined && { startMs: parseInstant(values.start, '--start') }),
    ...(values.end !== undefined && { endMs: parseInstant(values.end, '--end') }),
    ...(values['max-count'] !== undefined && { maxCount: number(values['max-count']) }),
    ...(values.spread !== undefined && { spreadMs: number(values.spread) }),
  };
}

/** A number as it was written, or NaN, which every range check refuses. */
function number(text: string): number {
  return /^[0-9]+$/.test(text) ? Number(text) : Number.NaN;
}

/** A line per occurrence: UTC, local time, and the time since the one before, so that uneven steps are seen. */
function table(occurrences: PreviewedOccurrence[], zoneName: string | undefined, count: number): string {
  const zone = zoneOf(zoneName);
  const spread = occurrences.some(({ nominalMs, effectiveMs }) => nominalMs !== effectiveMs);
  const rows = occurrences.map(({ nominalMs, effectiveMs }, index) => [
    formatInstant(nominalMs),
    formatLocal(nominalMs, zone.offsetAt(Math.floor(nominalMs / 1000))),
    index === 0 ? '' : `+${duration(nominalMs - occurrences[index - 1]!.nominalMs)}`,
    ...(spread ? [formatInstant(effectiveMs)] : []),
  ]);
  rows.unshift(['UTC', `local (${zoneName ?? 'UTC'})`, 'gap', ...(spread ? ['fires at'] : [])]);
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  if (occurrences.length < count) lines.push('then finished');
  return `${lines.join('\n')}\n`;
}

/** `1 d 2 h 3 min 4.5 s`, without the parts that are zero. */
function duration(ms: number): string {
  const parts = [
    [Math.floor(ms / 86_400_000), 'd'],
    [Math.floor(ms / 3_600_000) % 24, 'h'],
    [Math.floor(ms / 60_000) % 60, 'min'],
    [(ms % 60_000) / 1000, 's'],
  ] as const;
  return parts
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(' ');
}
