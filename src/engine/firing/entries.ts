import type { Cursor } from '../../core/messages.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import type { Hold } from './holds.ts';
import type { Fired, Plan, Segment, Target } from './plan.ts';

/**
 * Where an entry is. `WAITING`: in the wheel. `READY`: due, waits for room in a batch. `FLIGHT`: its triggers are on the way
 * and nothing may move it until they are acknowledged or have failed. `IDLE`: nowhere (being set up, finished and waiting
 * for its write-back, or kept only for what it fired).
 */
const FREE = 0;
export const WAITING = 1;
export const READY = 2;
export const FLIGHT = 3;
export const IDLE = 4;

/** A run outside the schedule. */
export interface SingleRun {
  requestKey: string;
  target: Target;
}

/** What an entry holds beside its numbers. */
export interface Live {
  /** Full version in force. */
  version: number;
  cutMs: number;
  /** The version in force; null: it does not fire (paused, finished, terminated, deleted, error). */
  current: Plan | null;
  /** What is owed, in order; the version in force comes last. Empty: nothing. */
  segments: Segment[];
  /** What was fired after the cut of a version that does not fire: a later version must not fire it again. */
  fired: Fired[];
  /** The place in the fast path that is not covered before this entry has paid; null: none. */
  hold: Hold | null;
  cursor: Cursor | null;
  /** Changes that came while triggers were on the way, in order. */
  deferred: Change[];
  /** Runs when no older version is owed any more: the answers to changes. */
  whenCurrent: (() => void)[];
  /**
   * Effective time up to which a scan took everything for fired when it found this version, UTC ms; NO_OCCURRENCE when the
   * version came by the fast path, which tells all that a scan cannot know.
   */
  takenFromMs: number;
  /**
   * Of the versions that a scan passed over, once a message of theirs has come: what was fired beyond the cut of the next one, and
   * what the last one owes (null: nothing).
   */
  late: { fired: Fired[]; own: Segment | null } | null;
  run: SingleRun | null;
}

/** One new version of a job, from the fast path or found by a scan. */
export interface Change {
  shard: number;
  number: number;
  version: number;
  /** Occurrences with effective times after this instant belong to the new version, UTC ms. */
  cutMs: number;
  /** Null: the new version does not fire. */
  plan: Plan | null;
  /** The job has ended for good: no version comes after this one. */
  ended?: boolean;
  /** The version before, as the message tells it; null: it did not fire, or nobody says. */
  former: Plan | null;
  /** Offset of the message; -1: found by a scan. */
  offset: number;
  /** Its place in the fast path, held since it was put off. */
  hold: Hold | null;
  done: (() => void) | null;
}

export function newLive(version: number): Live {
  return {
    version,
    cutMs: 0,
    current: null,
    segments: [],
    fired: [],
    hold: null,
    cursor: null,
    deferred: [],
    whenCurrent: [],
    takenFromMs: NO_OCCURRENCE,
    late: null,
    run: null,
  };
}

/** The live jobs of a slot: a struct of arrays, indexes used again, grown by doubling. */
export class Entries {
  state: Uint8Array;
  /** Whether the entry stands in its shard's queue of write-backs. */
  queued: Uint8Array;
  shard: Int32Array;
  number: Float64Array;
  /** Next occurrence that is not acknowledged, UTC ms; NO_OCCURRENCE: none. */
  nominalMs: Float64Array;
  effectiveMs: Float64Array;
  /** When the score in the store was last set or seen, UTC ms. */
  scoredMs: Float64Array;
  /**
   * The version in force of an entry that owes its next occurrence and nothing else: one segment, no cursor, no place held, no
   * change put off. Such an entry fires without a look at `live`. Null: look there.
   */
  readonly plan: (Plan | null)[] = [];
  readonly live: (Live | null)[] = [];
  private readonly free: number[] = [];
  private readonly byShard = new Map<number, Map<number, number>>();

  constructor(capacity = 1_024) {
    this.state = new Uint8Array(capacity);
    this.queued = new Uint8Array(capacity);
    this.shard = new Int32Array(capacity);
    this.number = new Float64Array(capacity);
    this.nominalMs = new Float64Array(capacity);
    this.effectiveMs = new Float64Array(capacity);
    this.scoredMs = new Float64Array(capacity);
  }

  get size(): number {
    return this.live.length - this.free.length;
  }

  /** Entries that were ever used: all live ones are below. */
  get end(): number {
    return this.live.length;
  }

  find(shard: number, number: number): number {
    return this.byShard.get(shard)?.get(number) ?? -1;
  }

  /** All entries of a shard but single runs. */
  ofShard(shard: number): number[] {
    return [...(this.byShard.get(shard)?.values() ?? [])];
  }

  /** A new entry, IDLE. A single run is found by nobody. */
  make(shard: number, number: number, live: Live): number {
    const entry = this.free.pop() ?? this.live.push(null) - 1;
    if (entry >= this.state.length) this.grow();
    this.state[entry] = IDLE;
    this.queued[entry] = 0;
    this.shard[entry] = shard;
    this.number[entry] = number;
    this.nominalMs[entry] = NO_OCCURRENCE;
    this.effectiveMs[entry] = NO_OCCURRENCE;
    this.scoredMs[entry] = 0;
    this.live[entry] = live;
    this.plan[entry] = null;
    if (live.run === null) {
      const numbers = this.byShard.get(shard) ?? new Map<number, number>();
      this.byShard.set(shard, numbers.set(number, entry));
    }
    return entry;
  }

  release(entry: number): void {
    if (this.live[entry]?.run === null) this.byShard.get(this.shard[entry]!)?.delete(this.number[entry]!);
    this.state[entry] = FREE;
    this.queued[entry] = 0;
    this.live[entry] = null;
    this.plan[entry] = null;
    this.free.push(entry);
  }

  private grow(): void {
    const wider = <A extends Uint8Array | Int32Array | Float64Array>(from: A, to: A): A => {
      to.set(from);
      return to;
    };
    const capacity = this.state.length * 2;
    this.state = wider(this.state, new Uint8Array(capacity));
    this.queued = wider(this.queued, new Uint8Array(capacity));
    this.shard = wider(this.shard, new Int32Array(capacity));
    this.number = wider(this.number, new Float64Array(capacity));
    this.nominalMs = wider(this.nominalMs, new Float64Array(capacity));
    this.effectiveMs = wider(this.effectiveMs, new Float64Array(capacity));
    this.scoredMs = wider(this.scoredMs, new Float64Array(capacity));
  }
}
