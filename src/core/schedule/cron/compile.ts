import { carillonError } from '../../errors.ts';
import type { CronSchedule } from '../types.ts';
import { zoneOf } from '../zones/zone.ts';
import { CronTimes } from './cron.ts';
import { cronFields, parseCron } from './parse.ts';

/**
 * Compiled crons, about 3 kB each. When the young generation is full it becomes the old one, which is forgotten but for what
 * is asked for again: the recently used ones stay, without any work per use.
 */
class Generations {
  #young = new Map<string, CronTimes>();
  #old = new Map<string, CronTimes>();

  recall(key: string): CronTimes | undefined {
    const recent = this.#young.get(key);
    if (recent !== undefined) return recent;
    const known = this.#old.get(key);
    if (known !== undefined) this.keep(key, known);
    return known;
  }

  keep(key: string, compiled: CronTimes): void {
    if (this.#young.size >= GENERATION) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, compiled);
  }
}

const GENERATION = 4_096;
/** By what they compute. */
const bySense = new Generations();
/** By what was said, without `H`: the quick way, on which no text is taken apart. */
const byText = new Generations();

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
export function compileCron(schedule: CronSchedule, seed: string | undefined): CronTimes {
  const { expression, zone, gap, overlap } = schedule;
  // `H` stands for itself; an `h` of a name, as in `thu`, only misses the quick way.
  if (HASHED.test(expression)) return compiledBySense(schedule, seed);
  const said = `${expression}\n${zone ?? ''}\n${gap ?? ''}\n${overlap ?? ''}`;
  const known = byText.recall(said);
  if (known !== undefined) return known;
  const compiled = compiledBySense(schedule, seed);
  byText.keep(said, compiled);
  return compiled;
}

const HASHED = /h/i;

function compiledBySense(
  { expression, zone: zoneName, gap, overlap }: CronSchedule,
  seed: string | undefined,
): CronTimes {
  const texts = cronFields(expression, seed);
  const zone = zoneOf(zoneName);
  const key = `${zone.name}\n${gap ?? 'fire-after'}\n${overlap ?? 'auto'}\n${texts.join(' ')}`;
  const known = bySense.recall(key);
  if (known !== undefined) return known;
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
  bySense.keep(key, compiled);
  return compiled;
}
