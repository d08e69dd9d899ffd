import { readFileSync } from 'node:fs';
import { carillonError } from '../../core/errors.ts';
import type { JobForm, ScheduleForm } from '../../core/form/job-form.ts';
import type { MisfirePolicy } from '../../core/job.ts';
import type { GapPolicy, OverlapPolicy } from '../../core/schedule/types.ts';
import {
  CONNECTION,
  CONNECTION_USAGE,
  clientOf,
  durationOf,
  print,
  printJson,
  readArguments,
  UsageError,
  visible,
  wholeOf,
} from '../options.ts';

const USAGE = `Usage: carillon job add KEY (--cron EXPR | --every TIME | --at INSTANT | --delay TIME) [options]

  --cron EXPR     5 fields (minute hour day month weekday), 6 (second first), 7 (year last) or a macro such as @daily
  --zone ZONE     IANA zone, Z or an offset such as +05:30 (default UTC)
  --gap POLICY    what a skipped local time does: fire-after (default) or skip
  --overlap POLICY  what a repeated local time does: auto (default), first or both
  --every TIME    period of a fixed rate
  --anchor INSTANT  first occurrence of the fixed rate (default: one period after now)
  --at INSTANT    a single time
  --delay TIME    a single time, counted from now
  --payload JSON  value of every trigger, byte for byte (default null)
  --payload-file FILE  the same from a file (- is standard input)
  --content-type TYPE  media type of the payload (default application/json)
  --start INSTANT, --end INSTANT  first and last time allowed, inclusive
  --max-count N   at most N occurrences
  --spread TIME   width of the spread window
  --calendar NAME exclusion calendar; may stand several times
  --misfire MODE  what passed while nothing could fire does: once (default), skip or all
  --misfire-max-age TIME, --misfire-max-number N, --misfire-max-per-second N  limits of that
  --description TEXT
  --label NAME=VALUE  may stand several times
  --paused        it fires once it is resumed
  --replace       replace a job that has this key
${CONNECTION_USAGE}
TIME is whole ms, or a number with ms, s, m, h or d. INSTANT is RFC 3339 with an offset, such as 2027-01-31T09:00:00Z.
`;

const text = { type: 'string' } as const;
const texts = { type: 'string', multiple: true } as const;
const flag = { type: 'boolean' } as const;
const OPTIONS = {
  ...CONNECTION,
  cron: text,
  zone: text,
  gap: text,
  overlap: text,
  every: text,
  anchor: text,
  at: text,
  delay: text,
  payload: text,
  'payload-file': text,
  'content-type': text,
  start: text,
  end: text,
  'max-count': text,
  spread: text,
  calendar: texts,
  misfire: text,
  'misfire-max-age': text,
  'misfire-max-number': text,
  'misfire-max-per-second': text,
  description: text,
  label: texts,
  paused: flag,
  replace: flag,
} as const;

type Values = ReturnType<typeof readArguments<typeof OPTIONS>>['values'];

/** Registers one job and prints it. */
export async function addJob(args: string[]): Promise<number> {
  const { values, words } = readArguments(args, OPTIONS, ['KEY'], USAGE);
  const form = formOf(words[0]!, values);
  const payloadText = payloadOf(values);
  const options = payloadText === undefined ? {} : { payloadText };
  const { jobs } = clientOf(values);
  const job = await (values.replace ? jobs.put(form, options) : jobs.create(form, options));
  if (values.json) printJson(job);
  else print(`${job.result} ${visible(job.key)}, version ${job.version}, next ${job.nextFireAt ?? 'never'}`);
  return 0;
}

/** What the options say; whether each value is right is checked with the job, by the installation. */
function formOf(key: string, values: Values): JobForm {
  const { start, end, spread, calendar, description, label, paused } = values;
  const maxCount = values['max-count'];
  const contentType = values['content-type'];
  const misfire = misfireOf(values);
  return {
    key,
    schedule: scheduleOf(values),
    ...(start !== undefined && { start }),
    ...(end !== undefined && { end }),
    ...(maxCount !== undefined && { maxCount: wholeOf(maxCount, '--max-count', 1, Number.MAX_SAFE_INTEGER) }),
    ...(spread !== undefined && { spreadMs: durationOf(spread, '--spread') }),
    ...(calendar !== undefined && { calendars: calendar }),
    ...(misfire !== undefined && { misfire }),
    ...(contentType !== undefined && { contentType }),
    ...(description !== undefined && { description }),
    ...(label !== undefined && { labels: labelsOf(label) }),
    ...(paused && { state: 'paused' as const }),
  };
}

function scheduleOf({ cron, every, at, delay, zone, gap, overlap, anchor }: Values): ScheduleForm {
  const kinds = [cron, every, at, delay].filter((value) => value !== undefined);
  if (kinds.length !== 1) throw new UsageError('give one of --cron, --every, --at and --delay', USAGE);
  const onlyFor = (option: string, value: string | undefined, kind: string) => {
    if (value !== undefined) throw new UsageError(`${option} goes with ${kind} only`, USAGE);
  };
  if (cron === undefined) {
    for (const [option, value] of Object.entries({ '--zone': zone, '--gap': gap, '--overlap': overlap })) {
      onlyFor(option, value, '--cron');
    }
  }
  if (every === undefined) onlyFor('--anchor', anchor, '--every');
  else return { kind: 'rate', everyMs: durationOf(every, '--every'), ...(anchor !== undefined && { anchor }) };
  if (at !== undefined) return { kind: 'once', at };
  if (delay !== undefined) return { kind: 'delay', delayMs: durationOf(delay, '--delay') };
  return {
    kind: 'cron',
    expression: cron!,
    ...(zone !== undefined && { zone }),
    ...(gap !== undefined && { gap: gap as GapPolicy }),
    ...(overlap !== undefined && { overlap: overlap as OverlapPolicy }),
  };
}

function misfireOf(values: Values): MisfirePolicy | undefined {
  const maxAge = values['misfire-max-age'];
  const maxNumber = values['misfire-max-number'];
  const perSecond = values['misfire-max-per-second'];
  const given = [values.misfire, maxAge, maxNumber, perSecond].some((value) => value !== undefined);
  if (!given) return undefined;
  return {
    mode: (values.misfire ?? 'once') as MisfirePolicy['mode'],
    ...(maxAge !== undefined && { maxAgeMs: durationOf(maxAge, '--misfire-max-age') }),
    ...(maxNumber !== undefined && { maxNumber: wholeOf(maxNumber, '--misfire-max-number', 1, 1_000_000) }),
    ...(perSecond !== undefined && { maxPerSecond: wholeOf(perSecond, '--misfire-max-per-second', 1, 1_000_000) }),
  };
}

function labelsOf(labels: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    labels.map((label) => {
      const equals = label.indexOf('=');
      if (equals > 0) return [label.slice(0, equals), label.slice(equals + 1)];
      throw carillonError('request-invalid', `a label is NAME=VALUE: "${label}"`, { field: '--label' });
    }),
  );
}

function payloadOf(values: Values): string | undefined {
  const file = values['payload-file'];
  if (file === undefined) return values.payload;
  if (values.payload !== undefined) throw new UsageError('give one of --payload and --payload-file', USAGE);
  try {
    const bytes = readFileSync(file === '-' ? 0 : file);
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim();
  } catch (error) {
    const reason = error instanceof TypeError ? `${file} is not UTF-8` : (error as Error).message;
    throw carillonError('request-invalid', reason, { field: '--payload-file' });
  }
}
