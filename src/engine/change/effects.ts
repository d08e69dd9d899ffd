import type { Job } from '../../core/job.ts';
import type { FastMessage } from '../../core/messages.ts';
import type { TriggerChange } from '../../ports/trigger-store.ts';
import type { Calendars } from './calendars.ts';
import { base64Record, encodedRecord } from './encoded.ts';
import { type ChangeDone, formerAt, type Sequence } from './sequence.ts';
import { sidesOf } from './sides.ts';
import { nextEffective } from './timing.ts';

/** What changes at one place of a shard, and what its owner must be told when the change is near. */
export interface Effect {
  shard: number;
  /** Safe to repeat. */
  add: TriggerChange;
  /** The owner must be told whatever the store says. */
  certain: boolean;
  message: () => FastMessage;
  /** Changes up to this offset (and after that of the effect before) are told by this message. */
  untilOffset: number;
  /** Its owner answers whoever asked; of the two sides of a job that moves it is the one that fires at that time. */
  answers: boolean;
}

/**
 * The effects of a sequence: of the places that its key left, and of the version that stands at its end. They belong to the
 * batch that holds the change which made them, also when an earlier run with other batches has written it.
 */
export function effectsOf(sequence: Sequence, calendars: Calendars): Effect[] {
  const { stored, final, first, last, former, left } = sequence;
  const effects: Effect[] = left
    .filter(({ offset }) => offset >= first && offset <= last)
    .map(({ id, offset, shard, number, version, cutMs, former: record, tell = false }) => {
      const told = { v: 1, id, shard, number, version, cutMs, score: null, record: null, former: record } as const;
      return {
        shard,
        add: { number, version, score: null, cutMs, record: null },
        certain: tell,
        message: () => ({ ...told, ...replyTo(sequence.done, offset), result: 'deleted' }),
        untilOffset: offset,
        answers: true,
      };
    });
  const position = final?.position.offset ?? -1;
  const isHere = final !== stored || (position >= first && position <= last);
  // A run by hand writes the document and leaves its version: there is nothing to tell.
  if (final !== null && isHere && final.version !== former.version) {
    const sides = sidesOf(asWritten(sequence, final));
    const teller = tellerOf(sequence, final);
    const firing = final.move !== undefined && (teller?.change.atMs ?? 0) <= final.move.cutMs ? sides.at(-1) : sides[0];
    for (const side of onlyGone(sequence) ? sides.slice(0, 1) : sides) {
      const add = triggerChange(side, calendars);
      effects.push({
        shard: side.shard,
        add,
        certain: sequence.tell,
        message: () => versionMessage(sequence, side, add, calendars, side === firing ? teller : undefined),
        untilOffset: Number.POSITIVE_INFINITY,
        answers: side === firing,
      });
    }
  }
  return effects;
}

/**
 * A version as an earlier run of the same records wrote it. Its owner may have found it by a scan after its time, taken it for
 * fired and finished it before that run's message could tell what is owed: so it is added and told again as it was.
 */
function asWritten({ stored }: Sequence, final: Job): Job {
  const since = final === stored && final.state === 'finished' && final.replay?.finished !== true;
  return since ? { ...final, state: 'enabled' } : final;
}

/** The runs by hand in a sequence; each goes to the owner, whatever H is. */
export function firesOf({ done, final }: Sequence, calendars: Calendars): { shard: number; message: FastMessage }[] {
  if (final === null || !done.some(({ change }) => change.action.kind === 'fire')) return [];
  return done.flatMap(({ change, outcome, repeated }) => {
    if (change.action.kind !== 'fire' || repeated || !outcome.ok || outcome.result !== 'fired') return [];
    const { shard, number, version, cutMs } = final;
    const fire = { requestKey: change.action.requestKey, nominalMs: change.atMs };
    const record = base64Record(final, calendars);
    const told = { v: 1, id: change.id, shard, number, version, cutMs, score: null, record, former: null } as const;
    const reply = change.replyTo === undefined ? {} : { replyTo: change.replyTo };
    return [{ shard, message: { ...told, fire, ...reply, result: 'fired' } }];
  });
}

/** What the trigger store must hold for a job: one member with the next effective time after its cut, or none. */
function triggerChange(job: Job, calendars: Calendars): TriggerChange {
  const { number, version, cutMs } = job;
  if (job.deleted) return { number, version, score: null, cutMs, record: null };
  const score = job.state === 'enabled' ? nextEffective(job, cutMs, calendars) : null;
  return { number, version, score, cutMs, record: encodedRecord(job, calendars) };
}

/** The change that made the version; undefined where an earlier batch held it. */
function tellerOf({ done }: Sequence, { position }: Job): ChangeDone | undefined {
  return done.findLast(({ offset, outcome }) => offset <= position.offset && changesVersion(outcome));
}

function versionMessage(
  sequence: Sequence,
  side: Job,
  own: TriggerChange,
  calendars: Calendars,
  teller: ChangeDone | undefined,
): FastMessage {
  const { shard, number, version, cutMs, lastChange } = side;
  return {
    v: 1,
    id: teller?.change.id ?? lastChange.id,
    shard,
    number,
    version,
    cutMs,
    score: own.score,
    record: side.deleted ? null : base64Record(side, calendars),
    former: formerAt(sequence.former, side),
    ...(teller?.change.replyTo === undefined ? {} : { replyTo: teller.change.replyTo }),
    result: teller?.outcome.ok ? teller.outcome.result : lastChange.result,
  };
}

/** Whether a job only took its new place: the record at the one that it leaves is right as it is, and may have run out. */
function onlyGone({ done }: Sequence): boolean {
  const made = done.filter(({ outcome }) => changesVersion(outcome)).map(({ change }) => change.action);
  return made.length > 0 && made.every((action) => action.kind === 'move' && action.step === 'go');
}

/** Whether an outcome made a version (or took the last one away). */
function changesVersion(outcome: ChangeDone['outcome']): boolean {
  return outcome.ok && outcome.result !== 'unchanged' && outcome.result !== 'fired';
}

function replyTo(done: readonly ChangeDone[], offset: number): { replyTo?: string } {
  const found = done.find((one) => one.offset === offset)?.change.replyTo;
  return found === undefined ? {} : { replyTo: found };
}
