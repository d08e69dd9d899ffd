import type { ChangeOutcome, ChangeReplay, FormerRecord, Job, LeftPlace, Place } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Change } from '../../core/messages.ts';
import type { Calendars } from './calendars.ts';
import { decide } from './decide.ts';
import { encodedRecord } from './encoded.ts';
import { withoutLateMove } from './move.ts';
import { sidesOf } from './sides.ts';
import { type ChangeContext, lastOutcome } from './writing.ts';

/** A change with its offset in the changes topic. */
export interface ChangeRecord {
  offset: number;
  change: Change;
}

export interface ChangeDone extends ChangeRecord {
  outcome: ChangeOutcome;
  /** The same request came before under another offset. */
  repeated: boolean;
  /** Shards in which this change gave a place up. */
  ended: number[];
  /** The job behind this change, as far as this run has decided it; null where it has not, and where there is none. */
  job: Job | null;
}

/** What all changes of one key in one batch come to. */
export interface Sequence {
  /** The document as it was read. */
  stored: Job | null;
  /** The document as it is to be; equal to `stored` (the same object) when nothing is to be written. */
  final: Job | null;
  done: ChangeDone[];
  /** First and last offset of this key in the batch. */
  first: number;
  last: number;
  /** What stood before the changes that are not committed. */
  former: Former;
  left: LeftPlace[];
  tell: boolean;
}

export interface Former {
  version: number;
  /** One for each of its places. */
  records: FormerRecord[];
}

export interface SequenceContext extends Omit<ChangeContext, 'position' | 'uncommittedFrom'> {
  partition: number;
}

/**
 * Applies the changes of one key in the order of their offsets, in memory. Every record of a batch is uncommitted: those at
 * or before the stored position were written by an earlier run that crashed, and have their outcome kept in the document.
 */
export function applyInOrder(stored: Job | null, records: readonly ChangeRecord[], context: SequenceContext): Sequence {
  const first = records[0]!.offset;
  const last = records.at(-1)!.offset;
  const written = stored?.position.offset ?? -1;
  const uncommitted = written >= first;
  let former = uncommitted ? keptFormer(stored) : formerOf(stored, context.calendars);
  let left = uncommitted ? (stored?.replay?.left ?? []) : [];
  let current = stored;
  /** The place of `current` was taken here and stands in no store yet. */
  let fresh = false;
  let tell = uncommitted && (stored?.replay?.tell ?? false);
  const done: ChangeDone[] = [];

  for (const record of records) {
    if (stored !== null && record.offset <= written) {
      done.push(keptOutcome(stored, record));
      const taken = current === stored ? withoutLateMove(stored, record.change, context) : null;
      if (taken !== null) tell = true;
      current = taken ?? current;
      continue;
    }
    const position = { partition: context.partition, offset: record.offset };
    const {
      outcome,
      next,
      repeated = false,
    } = decide(current, record.change, {
      ...context,
      position,
      uncommittedFrom: first,
    });
    if (next !== null) {
      if (uncommitted && current === stored) tell = true;
      if (outcome.ok && outcome.result === 'created') {
        if (current !== null && !fresh && current.position.offset >= first)
          left = [...left, ...leftPlaces(current, former, tell)];
        former = NONE;
        fresh = true;
        tell = false;
      } else if (current !== null && !next.deleted && !stands(next, current)) {
        left = [...left, leftPlace(next, current, former, tell)];
      }
    }
    const ended = next === null ? [] : endedBy(current, next);
    current = next ?? current;
    done.push({ ...record, outcome, repeated, ended, job: current?.deleted ? null : current });
  }
  const final = current === stored ? stored : withReplay(current!, done, former, left, tell);
  return { stored, final, done, first, last, former, left, tell };
}

const NONE: Former = { version: 0, records: [] };

/**
 * What stood before. Its calendars are those of now: how they were then is in the trigger store only, and would matter only
 * to an owner that took the slot over in the moment in which a calendar changed. One that has become too large is left out.
 */
function formerOf(stored: Job | null, calendars: Calendars): Former {
  if (stored === null || stored.deleted) return NONE;
  const records = sidesOf(stored).map((side) => {
    const bytes = encodedRecord(side, calendars);
    const record = bytes.length <= LIMITS.recordBytes ? Buffer.from(bytes).toString('base64') : null;
    return { shard: side.shard, number: side.number, record };
  });
  return { version: stored.version, records };
}

function keptFormer(stored: Job | null): Former {
  const replay = stored?.replay;
  return replay === undefined ? NONE : { version: replay.formerVersion, records: replay.former };
}

/** What stood at a place before; null where nothing did. */
export function formerAt(former: Former, place: Place): string | null {
  return former.records.find(({ shard, number }) => shard === place.shard && number === place.number)?.record ?? null;
}

/** Whether a job has a place, as the one where it is or as the one that it leaves. */
function stands(job: Job, place: Place): boolean {
  return placesOf(job).some(({ shard, number }) => shard === place.shard && number === place.number);
}

function placesOf(job: Job): Place[] {
  return job.move?.from === undefined ? [job] : [job, job.move.from];
}

/** Shards of the places that `before` had and `next` has not. */
function endedBy(before: Job | null, next: Job): number[] {
  if (before === null || before.deleted) return [];
  return placesOf(before).flatMap((place) => (next.deleted || !stands(next, place) ? [place.shard] : []));
}

function keptOutcome(stored: Job, record: ChangeRecord): ChangeDone {
  const kept = stored.replay?.outcomes.find(({ offset }) => offset === record.offset);
  const outcome = kept?.outcome ?? lastOutcome(stored);
  return { ...record, outcome, repeated: kept?.repeated ?? false, ended: [], job: null };
}

function leftPlaces(tombstone: Job, former: Former, tell: boolean): LeftPlace[] {
  return placesOf(tombstone).map((place) => leftPlace(tombstone, place, former, tell));
}

/** `job` is the version that is not at this place any more. */
function leftPlace(job: Job, { shard, number }: Place, former: Former, tell: boolean): LeftPlace {
  const { version, cutMs, position, lastChange } = job;
  const record = formerAt(former, { shard, number });
  const { offset } = position;
  return { id: lastChange.id, offset, shard, number, version, cutMs, former: record, ...(tell ? { tell } : {}) };
}

/** A plain creation needs nothing beside `lastChange`; that keeps the documents of a bulk load small. */
function withReplay(job: Job, done: readonly ChangeDone[], former: Former, left: LeftPlace[], tell: boolean): Job {
  const outcomes = done
    .filter(({ offset }) => offset < job.position.offset)
    .map(({ offset, outcome, repeated }) => ({ offset, outcome, ...(repeated ? { repeated } : {}) }));
  const plain = outcomes.length === 0 && left.length === 0 && former.version === 0 && !tell;
  if (plain && job.replay === undefined) return job;
  const { replay: _, ...rest } = job;
  if (plain) return rest;
  const replay: ChangeReplay = {
    formerVersion: former.version,
    former: former.records,
    outcomes,
    left,
    ...(tell ? { tell } : {}),
    ...(job.state === 'finished' ? { finished: true } : {}),
  };
  return { ...rest, replay };
}
