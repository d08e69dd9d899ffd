import { readFileSync } from 'node:fs';
import { formatInstant } from '../../../src/core/schedule/iso.ts';
import { compileSchedule, nominalTimes } from '../../../src/core/schedule/schedule.ts';
import type { Schedule } from '../../../src/core/schedule/types.ts';

/** One question of a cron case: the next `n` instants strictly after `after`. */
export interface CronCheck {
  expr: string;
  zone: string;
  after: string;
  n: number;
}

interface CronCase {
  id: string;
  topic: string;
  input: { checks?: CronCheck[]; reject?: string[]; accept?: string[]; also?: string[]; zones?: (string | null)[] };
  expect: { next?: string[][] };
}

/** The project's own copy of the cases (how to read them: `test/cases/README.md`). */
export const CASES: readonly CronCase[] = readFileSync(new URL('../../cases/cases.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as CronCase);

export function caseOf(id: string): CronCase {
  return CASES.find((candidate) => candidate.id === id)!;
}

/** The next `n` instants of a schedule after an instant, as the cases write them. */
export function nextInstants(schedule: Schedule, after: string, n: number, key?: string): string[] {
  const afterMs = Date.parse(after);
  const compiled = compileSchedule(schedule, {}, { createdMs: afterMs, ...(key !== undefined && { key }) });
  return nominalTimes(compiled, afterMs, Number.POSITIVE_INFINITY, n).map(formatInstant);
}

export function cronInstants({ expr, zone, after, n }: CronCheck): string[] {
  return nextInstants({ kind: 'cron', expression: expr, zone }, after, n);
}
