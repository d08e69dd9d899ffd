import { createRequire } from 'node:module';
import { daysFromCivil, monthLength, packedCivil, SECONDS_PER_DAY, weekdayOf } from '../civil.ts';

/**
 * The `tzdata` package as it comes: the source lines of the IANA database as JSON (format: zic(8), tz-how-to.html).
 * A zone is the name of another (a link) or its lines `[minutes WEST of UTC, rule or saving, format, until]`, `until` in ms
 * of the clock in force just before it. A rule line is `[from, to, -, month, day, [h, m, s, clock], saving in minutes, letter]`.
 */
interface ZoneData {
  version: string;
  zones: Record<string, string | [string, string, string, string | null][]>;
  rules: Record<
    string,
    [string, string, string, string, string, [string, string, string, string | null], string, string][]
  >;
}

/** A rule line, decoded. Times and savings are in seconds. */
export interface Rule {
  fromYear: number;
  /** Last year in which the rule holds; `Infinity` for `max`. */
  toYear: number;
  month: number;
  /** `5`, `lastSun`, `Sun>=8` or `Sun<=25`. */
  on: string;
  secondOfDay: number;
  /** The clock that the time of day is read from: `wall`, `standard` or `utc`. */
  clock: 'wall' | 'standard' | 'utc';
  saving: number;
}

/** A line of a zone, decoded: its offset east of UTC and its saving or rules, in seconds. */
export interface ZoneLine {
  offset: number;
  saving: number;
  rules: readonly Rule[] | undefined;
  /** Local seconds at which the line ends; `Infinity` for the last. */
  until: number;
  /** Whether `until` is known to be UTC. */
  untilIsUtc: boolean;
}

/**
 * Ends of lines that the source writes with a `u` (UTC) and that no rule gives away (`lineEnd` in `transitions.ts`). Such ends
 * are history: a release of the data changes them only if somebody learns that the past was another.
 */
const UTC_UNTILS: Readonly<Record<string, readonly string[]>> = {
  'Antarctica/Casey': ['2012-02-21T17:00Z'],
  'Antarctica/Davis': ['2010-03-10T20:00Z', '2012-02-21T20:00Z'],
  'Europe/Istanbul': ['2011-03-28T01:00Z', '2014-03-31T01:00Z', '2015-11-08T01:00Z'],
};

/** Zones that changed on 31 December 1994, which is no bare year there (`untilSeconds`). */
const LAST_DAY_OF_1994 = ['Pacific/Kanton', 'Pacific/Kiritimati'];

const require = createRequire(import.meta.url);
const data = require('tzdata') as ZoneData;
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const links = new Map(Object.entries(data.zones));
const ruleSets = new Map<string, readonly Rule[]>();

/** Version of the IANA database that is in force, for example `2026d`. */
export const zoneDataVersion: string = data.version;

/** Every zone name that the data knows, links included, sorted. */
export function zoneNames(): string[] {
  return [...links.keys()].sort();
}

/** The name that a link stands for (itself for a zone), or undefined if the data has no such name. */
export function canonicalZone(name: string): string | undefined {
  const target = links.get(name);
  return typeof target === 'string' ? canonicalZone(target) : target && name;
}

/** The lines of a zone that is not a link. */
export function zoneLines(canonicalName: string): ZoneLine[] {
  const lines = links.get(canonicalName);
  if (!lines || typeof lines === 'string')
    throw new Error(`${canonicalName} is not a zone of tzdata ${zoneDataVersion}`);
  const utcUntils = (UTC_UNTILS[canonicalName] ?? []).map((at) => Date.parse(at));
  return lines.map(([west, rule, , until]) => {
    const saving = parseSaving(rule);
    return {
      // LMT offsets are seconds that the package gives as fractions of minutes. `|| 0` turns -0 into 0.
      offset: -Math.round(Number(west) * 60) || 0,
      saving: saving ?? 0,
      rules: saving === undefined ? ruleSet(rule) : undefined,
      until: until === null ? Number.POSITIVE_INFINITY : untilSeconds(canonicalName, Number(until) / 1000),
      untilIsUtc: utcUntils.includes(Number(until)),
    };
  });
}

/**
 * Where the source names only a year (`1986`, which is its first moment), the package writes 31 December of it. Since 1900
 * the source has real lines of that kind only in Pacific/Kanton and Pacific/Kiritimati, 1994.
 */
function untilSeconds(zone: string, seconds: number): number {
  const civil = packedCivil(Math.floor(seconds / SECONDS_PER_DAY));
  if (civil >> 9 === 1994 && LAST_DAY_OF_1994.includes(zone)) return seconds;
  const isBareYear = seconds % SECONDS_PER_DAY === 0 && (civil & 511) === 12 * 32 + 31;
  return isBareYear ? daysFromCivil(civil >> 9, 1, 1) * SECONDS_PER_DAY : seconds;
}

/** `-` is no saving, `1:00` and `-1:00` are hours and minutes; a name of a rule set is undefined. */
function parseSaving(text: string): number | undefined {
  if (text === '-') return 0;
  const match = /^(-?)(\d+):(\d\d)$/.exec(text);
  if (!match) return undefined;
  return (match[1] === '-' ? -1 : 1) * (Number(match[2]) * 3600 + Number(match[3]) * 60);
}

function ruleSet(name: string): readonly Rule[] {
  let rules = ruleSets.get(name);
  if (!rules) {
    const lines = data.rules[name];
    if (!lines) throw new Error(`tzdata ${zoneDataVersion} has no rules ${name}`);
    rules = lines.map(([from, to, , month, on, [hour, minute, second, clock], saving]) => ({
      fromYear: Number(from),
      toYear: to === 'only' ? Number(from) : to === 'max' ? Number.POSITIVE_INFINITY : Number(to),
      month: MONTHS.indexOf(month) + 1,
      on,
      secondOfDay: Number(hour) * 3600 + Number(minute) * 60 + Number(second),
      clock: clock === 's' ? 'standard' : clock === 'u' || clock === 'g' || clock === 'z' ? 'utc' : 'wall',
      saving: Number(saving) * 60,
    }));
    ruleSets.set(name, rules);
  }
  return rules;
}

/** Seconds from the epoch at which the rule takes effect in a year, by the clock that the rule names. */
export function ruleTime(rule: Rule, year: number): number {
  return dayOfRule(rule, year) * SECONDS_PER_DAY + rule.secondOfDay;
}

/** `Sun>=31` and `Sun<=1` may run into the neighbouring month, as zic(8) says. */
function dayOfRule({ month, on }: Rule, year: number): number {
  const last = /^last(...)$/.exec(on);
  if (last) {
    const day = daysFromCivil(year, month, monthLength(year, month));
    return day - ((weekdayOf(day) - WEEKDAYS.indexOf(last[1]!) + 7) % 7);
  }
  const relative = /^(...)([<>])=(\d+)$/.exec(on);
  if (!relative) return daysFromCivil(year, month, Number(on));
  const day = daysFromCivil(year, month, Number(relative[3]));
  const distance = WEEKDAYS.indexOf(relative[1]!) - weekdayOf(day);
  return relative[2] === '>' ? day + ((distance + 7) % 7) : day - ((7 - distance) % 7);
}
