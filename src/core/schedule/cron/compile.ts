import { carillonError } from '../../errors.ts';
import type { CronSchedule } from '../types.ts';
import { zoneOf } from '../zones/zone.ts';
import { CronTimes } from './cron.ts';
import { cronFields, parseCron } from './parse.ts';

/**
 * Compiled crons of one generation, about 3 kB each. When the young generation is full it becomes the old one, which is
 * forgotten but for what is asked for again: the recently used ones stay, without any work per use.
 */
const GENERATION = 4_096;
let young = new Map<string, CronTimes>();
let old = new Map<string, CronTimes>();

/**
 * The occurrences of a cron schedule. All jobs whose fields (after `H` was chosen), zone and policies are equal share one
 * object, and with it its memory of next occurrences.
 *
 * Policies: a schedule is *fixed-time* if neither its second, minute nor hour field starts with `*` (five fields have the
 * second 0), else *wildcard*. Gap `fire-after` acts on fixed-time schedules only; overlap `auto` means the first pass for
 * fixed-time and both passes for wildcard schedules.
 *
 * @param seed the job's key, which `H` is chosen by
 * @throws CarillonError `schedule-invalid`, `schedule-impossible`, `zone-unknown`
 */
export function compileCron(
  { expression, zone: zoneName, gap, overlap }: CronSchedule,
  seed: string | undefined,
): CronTimes {
  const texts = cronFields(expression, seed);
  const zone = zoneOf(zoneName);
  const key = `${zone.name}\n${gap ?? 'fire-after'}\n${overlap ?? 'auto'}\n${texts.join(' ')}`;
  const recent = young.get(key);
  if (recent) return recent;
  const known = old.get(key);
  if (known) {
    keep(key, known);
    return known;
  }
  const fields = parseCron(texts);
  const fireAfter = fields.fixedTime && gap !== 'skip';
  const freshOnly = overlap === 'first' || (overlap !== 'both' && fields.fixedTime);
  const compiled = new CronTimes(fields, zone, fireAfter, freshOnly);
  if (!compiled.hasDays) {
    throw carillonError(
      'schedule-impossible',
      `day-of-month, month and day-of-week of "${expression}" name no day of any year`,
      {
        field: 'schedule.expression',
        token: `${texts[3]} ${texts[4]} ${texts[5]}`.slice(0, 40),
      },
    );
  }
  keep(key, compiled);
  return compiled;
}

function keep(key: string, compiled: CronTimes): void {
  if (young.size >= GENERATION) {
    old = young;
    young = new Map();
  }
  young.set(key, compiled);
}
