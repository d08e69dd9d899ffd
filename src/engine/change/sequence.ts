import type { ChangeOutcome, ChangeReplay, Job, LeftPlace } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Change } from '../../core/messages.ts';
import type { Calendars } from './calendars.ts';
import { type ChangeContext, decide, lastOutcome } from './decide.ts';
import { encodedRecord } from './encoded.ts';

/** A change with its offset in the changes topic. */
export interface ChangeRecord {
  offset: number;
  change: Change;
}

export interface ChangeDone extends ChangeRecord {
  outcome: ChangeOutcome;
  /** The same request came before under another offset. */
  repeated: boolean;
  /** It was applied by an earlier run of the same records that did not reach its commit. */
  kept: boolean;
  /** Shard of the job that this change took away. */
  ended: number | null;
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

interface Former {
  version: number;
  record: string | null;
}

export interface SequenceContext extends Omit<ChangeContext, 'position'> {
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
      continue;
    }
    const position = { partition: context.partition, offset: record.offset };
    const { outcome, next, repeated = false } = decide(current, record.change, { ...context, position });
    if (next !== null) {
      if (uncommitted && current === stored) tell = true;
      if (outcome.ok && outcome.result === 'created') {
        if (current !== null && !fresh && current.position.offset >= first)
          left = [...left, leftPlace(current, former, tell)];
        former = NONE;
        fresh = true;
        tell = false;
      }
      current = next;
    }
    const ended = next?.deleted ? next.shard : null;
    done.push({ ...record, outcome, repeated, kept: false, ended });
  }
  const final = current === stored ? stored : withReplay(current!, done, former, left, tell);
  return { stored, final, done, first, last, former, left, tell };
}

const NONE: Former = { version: 0, record: null };

/**
 * What stood before. Its calendars are those of now: how they were then is in the trigger store only, and would matter only
 * to an owner that took the slot over in the moment in which a calendar changed. One that has become too large is left out.
 */
function formerOf(stored: Job | null, calendars: Calendars): Former {
  if (stored === null || stored.deleted) return NONE;
  const bytes = encodedRecord(stored, calendars);
  const record = bytes.length <= LIMITS.recordBytes ? Buffer.from(bytes).toString('base64') : null;
  return { version: stored.version, record };
}

function keptFormer(stored: Job | null): Former {
  const replay = stored?.replay;
  return replay === undefined ? NONE : { version: replay.formerVersion, record: replay.former };
}

function keptOutcome(stored: Job, record: ChangeRecord): ChangeDone {
  const kept = stored.replay?.outcomes.find(({ offset }) => offset === record.offset);
  const outcome = kept?.outcome ?? lastOutcome(stored);
  return { ...record, outcome, repeated: kept?.repeated ?? false, kept: true, ended: null };
}

function leftPlace(tombstone: Job, former: Former, tell: boolean): LeftPlace {
  const { shard, number, version, cutMs } = tombstone;
  const { offset } = tombstone.position;
  return {
    id: tombstone.lastChange.id,
    offset,
    shard,
    number,
    version,
    cutMs,
    former: former.record,
    ...(tell ? { tell } : {}),
  };
}

/** A plain creation needs nothing beside `lastChange`; that keeps the documents of a bulk load small. */
function withReplay(job: Job, done: readonly ChangeDone[], former: Former, left: LeftPlace[], tell: boolean): Job {
  const outcomes = done
    .filter(({ offset }) => offset < job.position.offset)
    .map(({ offset, outcome, repeated }) => ({ offset, outcome, ...(repeated ? { repeated } : {}) }));
  const { replay: _, ...rest } = job;
  if (outcomes.length === 0 && left.length === 0 && former.version === 0 && !tell) return rest;
  const replay: ChangeReplay = {
    formerVersion: former.version,
    former: former.record,
    outcomes,
    left,
    ...(tell ? { tell } : {}),
  };
  return { ...rest, replay };
}
