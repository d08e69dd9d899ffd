import { CarillonError } from '../core/errors.ts';
import { ApiError } from '../sdk/api-error.ts';
import { HelpAsked, UsageError } from './options.ts';

/** Which option a field of a job came from. */
const OPTION_OF_FIELD: Readonly<Record<string, string>> = {
  'schedule.expression': '--cron',
  'schedule.zone': '--zone',
  'schedule.gap': '--gap',
  'schedule.overlap': '--overlap',
  'schedule.everyMs': '--every',
  'schedule.anchor': '--anchor',
  'schedule.at': '--at',
  'schedule.delayMs': '--delay',
  start: '--start',
  end: '--end',
  maxCount: '--max-count',
  spreadMs: '--spread',
  calendars: '--calendar',
  'misfire.mode': '--misfire',
  payload: '--payload',
  contentType: '--content-type',
  description: '--description',
};

/** Statuses of an input that stays wrong. */
const WRONG_INPUT = new Set([400, 413, 415]);

/**
 * Tells an error that a command ended with, and answers the exit code: 2 for wrong usage or input, 1 for what failed.
 * A fault of ours is thrown on.
 */
export function tellFault(command: string, error: unknown): number {
  if (error instanceof HelpAsked) {
    process.stdout.write(error.message);
    return 0;
  }
  if (error instanceof UsageError) {
    process.stderr.write(`carillon ${command}: ${error.message}\n\n${error.usage}`);
    return 2;
  }
  if (error instanceof CarillonError) {
    process.stderr.write(`carillon ${command}: ${place(error.field)}${error.message}\n`);
    return error.retryable ? 1 : 2;
  }
  if (!(error instanceof ApiError)) throw error;
  process.stderr.write(`carillon ${command}: ${place(error.field)}${error.message}\n`);
  for (const { field, detail } of error.faults) process.stderr.write(`  ${field}: ${detail}\n`);
  const mend = mendOf(error);
  if (mend !== undefined) process.stderr.write(`${mend}\n`);
  return WRONG_INPUT.has(error.status) || error.code === 'request-malformed' ? 2 : 1;
}

function place(field: string | undefined): string {
  if (field === undefined) return '';
  return `${OPTION_OF_FIELD[field] ?? field}: `;
}

function mendOf({ code, status, location }: ApiError): string | undefined {
  if (status === 0 && code === 'network')
    return 'Does Carillon run there? Start it with "npm start", or name it by --url.';
  if (code === 'unauthorized') return 'Give the key by --api-key or CARILLON_API_KEY.';
  if (code === 'accepted' && location !== undefined) return `Ask for it later: ${location}`;
  if (code === 'job-exists') return 'To replace it, add --replace.';
  return undefined;
}
