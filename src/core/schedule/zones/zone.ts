import { createHash } from 'node:crypto';
import { carillonError } from '../../errors.ts';
import { SECONDS_PER_400_YEARS } from '../civil.ts';
import { canonicalZone, zoneNames } from './rules.ts';
import { type Transitions, zoneTransitions } from './transitions.ts';

/** Greatest fixed offset, in seconds: 14 h, the greatest that is in use (Line Islands). */
const FIXED_OFFSET_MAX = 14 * 3600;

/**
 * The clock of one zone. `seek` moves it to the stretch of constant offset that holds an instant; the fields then describe
 * that stretch. One object is shared by all who use the zone in a thread, so the fields are read right after a `seek`. All
 * times are UTC seconds; offsets are seconds east of UTC.
 */
export class Zone {
  readonly name: string;
  /** First and last-plus-one second of the current stretch; -Infinity and Infinity at the ends. */
  from = 0;
  until = 0;
  offset = 0;
  /**
   * First second of the stretch whose local time did not pass before: `from`, but after clocks went back the end of the
   * repeated time (or `until`, if the stretch is shorter than that).
   */
  freshFrom = 0;
  private readonly starts: Float64Array;
  private readonly offsets: Int32Array;
  private readonly fresh: Float64Array;
  private readonly repeatsFrom: number;
  private index = 0;
  /** Multiple of 400 years by which the current stretch lies behind the stored one. */
  private shift = 0;

  constructor(name: string, { from, offsets, repeatsFrom }: Transitions) {
    this.name = name;
    this.starts = from;
    this.offsets = offsets;
    this.repeatsFrom = repeatsFrom;
    this.fresh = freshStarts(from, offsets);
    this.load();
  }

  /** Moves to the stretch that holds the instant. Constant time for the current stretch and the one behind it. */
  seek(instant: number): void {
    if (instant >= this.from && instant < this.until) return;
    this.shift =
      instant < this.repeatsFrom
        ? 0
        : (Math.floor((instant - this.repeatsFrom) / SECONDS_PER_400_YEARS) + 1) * SECONDS_PER_400_YEARS;
    const stored = instant - this.shift;
    const { starts } = this;
    const following = this.index + 1;
    const behind = following + 1 < starts.length ? starts[following + 1]! : Number.POSITIVE_INFINITY;
    if (following < starts.length && stored >= starts[following]! && stored < behind) {
      this.index = following;
    } else {
      let low = 0;
      let high = starts.length;
      while (high - low > 1) {
        const middle = (low + high) >>> 1;
        if (starts[middle]! <= stored) low = middle;
        else high = middle;
      }
      this.index = low;
    }
    this.load();
  }

  /** Offset in force at an instant. */
  offsetAt(instant: number): number {
    this.seek(instant);
    return this.offset;
  }

  private load(): void {
    const { index, shift, starts } = this;
    const end = index + 1 < starts.length ? starts[index + 1]! : this.repeatsFrom;
    // A stretch that crosses the point of repetition is cut there; both parts have the same offset.
    const begin = shift > 0 ? Math.max(starts[index]!, this.repeatsFrom - SECONDS_PER_400_YEARS) : starts[index]!;
    this.from = begin + shift;
    this.until = Math.min(end, this.repeatsFrom) + shift;
    this.offset = this.offsets[index]!;
    this.freshFrom = Math.max(this.from, this.fresh[index]! + shift);
  }
}

/** For each stretch the first second whose local time is later than all local times before the stretch. */
function freshStarts(from: Float64Array, offsets: Int32Array): Float64Array {
  let localMax = Number.NEGATIVE_INFINITY;
  return from.map((start, index) => {
    const offset = offsets[index]!;
    const until = from[index + 1] ?? Number.POSITIVE_INFINITY;
    const fresh = Math.min(until, Math.max(start, localMax - offset));
    localMax = Math.max(localMax, until + offset);
    return fresh;
  });
}

const compiled = new Map<string, Zone>();

/**
 * The zone of a name: an IANA name of the data in force (exact spelling, links included), `Z`, or a fixed offset `+HH:MM` or
 * `-HH:MM` up to 14 h. An absent name means UTC; an empty one, or one with blanks, is refused like any unknown one. Aliases
 * share one object.
 *
 * @throws CarillonError `zone-unknown`
 */
export function zoneOf(name: string | undefined, field = 'schedule.zone'): Zone {
  if (name === undefined || name === 'Z') return zoneOf('UTC');
  const known = compiled.get(name);
  if (known) return known;
  const zone = typeof name === 'string' ? compileZone(name) : undefined;
  if (!zone) {
    throw carillonError('zone-unknown', unknownZone(name), { field, token: String(name) });
  }
  compiled.set(name, zone);
  return zone;
}

function compileZone(name: string): Zone | undefined {
  const fixed = /^([+-])(\d\d):([0-5]\d)$/.exec(name);
  if (fixed) {
    const seconds = Number(fixed[2]) * 3600 + Number(fixed[3]) * 60;
    if (seconds > FIXED_OFFSET_MAX) return undefined;
    const offset = fixed[1] === '-' ? -seconds : seconds;
    return new Zone(name, {
      from: Float64Array.of(Number.NEGATIVE_INFINITY),
      offsets: Int32Array.of(offset),
      repeatsFrom: Number.POSITIVE_INFINITY,
    });
  }
  const canonical = canonicalZone(name);
  if (canonical === undefined) return undefined;
  return canonical === name ? new Zone(name, zoneTransitions(name)) : zoneOf(canonical);
}

function unknownZone(name: unknown): string {
  if (typeof name !== 'string') return 'zone must be a name such as "Europe/Paris"; leave it out for UTC';
  if (name === '') return 'zone is empty; leave it out for UTC';
  const lower = name.trim().toLowerCase();
  const near = zoneNames().find((candidate) => candidate.toLowerCase() === lower);
  if (near !== undefined) return `"${name}" is written "${near}"`;
  return `"${name.slice(0, 80)}" is neither an IANA zone (such as "Europe/Paris"), nor "Z", nor an offset from -14:00 to +14:00 such as "+05:30"`;
}

const FINGERPRINT_FROM = Date.UTC(1970, 0, 1) / 1000;
const FINGERPRINT_UNTIL = Date.UTC(2100, 0, 1) / 1000;

/** 16 hex digits over the offsets of a zone from 1970 to 2100: equal if and only if its clock is (as far as hashes go). */
export function zoneFingerprint(name: string): string {
  const zone = zoneOf(name);
  const hash = createHash('sha256');
  for (let at = FINGERPRINT_FROM; at < FINGERPRINT_UNTIL; at = zone.until) {
    zone.seek(at);
    hash.update(`${at} ${zone.offset}\n`);
  }
  return hash.digest('hex').slice(0, 16);
}

/** The fingerprint of every zone of the data in force, to be stored beside `zoneDataVersion`. */
export function zoneFingerprints(): Record<string, string> {
  return Object.fromEntries(zoneNames().map((name) => [name, zoneFingerprint(name)]));
}

/**
 * Names whose clock is not what the stored fingerprints say, zones that are new or gone included, sorted. The next
 * occurrences of jobs in these zones have to be computed again.
 */
export function zonesChanged(stored: Readonly<Record<string, string>>): string[] {
  const now = zoneFingerprints();
  const names = new Set([...Object.keys(stored), ...Object.keys(now)]);
  return [...names].filter((name) => stored[name] !== now[name]).sort();
}
