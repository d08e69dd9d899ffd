import { daysFromCivil, packedCivil, SECONDS_PER_400_YEARS, SECONDS_PER_DAY } from '../civil.ts';
import { type Rule, ruleTime, type ZoneLine, zoneLines } from './rules.ts';

/** The offsets of a zone: `offsets[i]` (seconds east of UTC) holds from `from[i]` on (UTC seconds) until `from[i + 1]`. */
export interface Transitions {
  /** Ascending; `from[0]` is -Infinity. Neighbours have different offsets. */
  from: Float64Array;
  offsets: Int32Array;
  /** From here on the 400 years before repeat for ever; Infinity if the last offset holds for ever. */
  repeatsFrom: number;
}

interface Transition {
  /** UTC seconds. */
  at: number;
  offset: number;
}

/** Rules of years before this do not exist in the data (its first is of 1910). */
const FIRST_RULE_YEAR = 1900;

/**
 * The transitions of a zone, by the algorithm of zic.c (`outzone`): line by line, and within a line year by year, always
 * the rule that takes effect earliest by the clock then in force. From the last year that any line names on, the rules
 * repeat with the calendar, so 400 years of them are stored and stand for all later ones.
 */
export function zoneTransitions(canonicalName: string): Transitions {
  const lines = zoneLines(canonicalName);
  const found: Transition[] = [];
  const settled = settledYear(lines);
  let start = Number.NEGATIVE_INFINITY;
  for (const [index, line] of lines.entries()) {
    start = addLine(found, line, lines[index + 1], start, settled + 400);
  }
  const distinct = merged(found.sort((a, b) => a.at - b.at));
  const last = lines.at(-1);
  const endless = last?.rules?.some((rule) => rule.toYear === Number.POSITIVE_INFINITY) ?? false;
  return {
    from: Float64Array.from(distinct, ({ at }) => at),
    offsets: Int32Array.from(distinct, ({ offset }) => offset),
    repeatsFrom: endless
      ? daysFromCivil(settled, 1, 1) * SECONDS_PER_DAY + SECONDS_PER_400_YEARS
      : Number.POSITIVE_INFINITY,
  };
}

/**
 * Drops what changes nothing, and takes two transitions for one where the second comes at or before the local time at which
 * the first began (a zone line and one of its rules that begin at the same local time), as `writezone` of zic.c does.
 */
function merged(found: readonly Transition[]): Transition[] {
  const result: Transition[] = [];
  for (const next of found) {
    const last = result.at(-1);
    if (last && next.at + last.offset <= last.at + (result.at(-2) ?? last).offset) {
      result[result.length - 1] = { at: last.at, offset: next.offset };
    } else {
      result.push(next);
    }
  }
  return result.filter(({ offset }, index) => index === 0 || offset !== result[index - 1]!.offset);
}

/** First year from which on only rules without end are in force (two years later, to be clear of the line's borders). */
function settledYear(lines: readonly ZoneLine[]): number {
  const years = [1970];
  for (const { rules, until } of lines) {
    if (until !== Number.POSITIVE_INFINITY) years.push(yearOf(until));
    for (const { fromYear, toYear } of rules ?? []) {
      years.push(toYear === Number.POSITIVE_INFINITY ? fromYear : toYear);
    }
  }
  return Math.max(...years) + 2;
}

function yearOf(seconds: number): number {
  return packedCivil(Math.floor(seconds / SECONDS_PER_DAY)) >> 9;
}

/** Adds the transitions of one line and answers the UTC second at which it ends (and the next begins). */
function addLine(
  found: Transition[],
  line: ZoneLine,
  next: ZoneLine | undefined,
  start: number,
  endYear: number,
): number {
  if (!line.rules) {
    found.push({ at: start, offset: line.offset + line.saving });
    return line.untilIsUtc ? line.until : line.until - line.offset - line.saving;
  }
  let saving = 0;
  /** Offset at the line's start: that of the last rule that took effect before it. */
  let startOffset = line.offset;
  let startPending = true;
  const lastYear = line.until === Number.POSITIVE_INFINITY ? endYear : yearOf(line.until);
  years: for (let year = FIRST_RULE_YEAR; year <= lastYear; year++) {
    const todo = line.rules.filter((rule) => year >= rule.fromYear && year <= rule.toYear);
    while (todo.length > 0) {
      const rule = takeEarliest(todo, year, line.offset, saving);
      const at = effectiveAt(rule, year, line.offset, saving);
      if (at >= lineEnd(line, next, saving)) break years;
      saving = rule.saving;
      if (at < start) {
        startOffset = line.offset + saving;
      } else {
        if (at === start) startPending = false;
        found.push({ at, offset: line.offset + saving });
      }
    }
  }
  if (startPending) found.push({ at: start, offset: startOffset });
  return lineEnd(line, next, saving);
}

function takeEarliest(todo: Rule[], year: number, offset: number, saving: number): Rule {
  let earliest = 0;
  for (let i = 1; i < todo.length; i++) {
    if (effectiveAt(todo[i]!, year, offset, saving) < effectiveAt(todo[earliest]!, year, offset, saving)) earliest = i;
  }
  return todo.splice(earliest, 1)[0]!;
}

/** UTC second at which a rule takes effect, given the standard offset and the saving in force until then. */
function effectiveAt(rule: Rule, year: number, offset: number, saving: number): number {
  const time = ruleTime(rule, year);
  if (rule.clock === 'utc') return time;
  return rule.clock === 'standard' ? time - offset : time - offset - saving;
}

/**
 * UTC second at which a line ends. The IANA source says by which clock `until` is read (wall, standard, UTC); the package
 * has lost that. A line nearly always ends where a rule of its own or of the next line takes effect, so the reading on
 * which such a rule falls is taken, and the wall clock, which is the source's default, where none does. Against compiled
 * IANA data (`test/oracle`) this is right for every zone from 2006 on (with the few ends that are listed in `rules.ts`); before
 * that some changes are hours, few of them days, off (Asia/Tbilisi 2005, Europe/London 1971), which no future occurrence sees.
 */
function lineEnd(line: ZoneLine, next: ZoneLine | undefined, saving: number): number {
  const wall = line.until - line.offset - saving;
  if (line.untilIsUtc || line.until === Number.POSITIVE_INFINITY) return line.until;
  const year = yearOf(line.until);
  const changesAt = (at: number): boolean =>
    (line.rules ?? []).some((rule) => isInYear(rule, year) && effectiveAt(rule, year, line.offset, saving) === at) ||
    (next?.rules ?? []).some((rule) => isInYear(rule, year) && effectiveAt(rule, year, next!.offset, 0) === at);
  const readings = [wall, line.until - line.offset, line.until];
  return readings.find(changesAt) ?? wall;
}

function isInYear(rule: Rule, year: number): boolean {
  return year >= rule.fromYear && year <= rule.toYear;
}
