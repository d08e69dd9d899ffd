import { type Answer, encodeMessage } from '../../core/messages.ts';
import { partitionOf } from '../../core/murmur2.ts';
import { TOPICS } from '../../core/topics.ts';
import type { BusMessage, TopicMessages } from '../../ports/bus.ts';
import type { ShardMessage, Told } from './add-members.ts';
import type { ChangeDone } from './sequence.ts';
import type { ShardSlots } from './shard-slots.ts';
import type { Work } from './work.ts';

/**
 * Most bytes of an answer with its job in it. Larger jobs are read by whoever asked: a batch of changes of large jobs would
 * fill the answers topic, which every API process reads whole.
 */
const ANSWER_BYTES = 16 * 1024;

export interface AppliedMessages {
  fast: readonly BusMessage[];
  answers: readonly BusMessage[];
}

/** Whoever waits for answers in the process of the applier: they reach him without the bus. */
export interface AnswersHere {
  readonly replyTo: string;
  answered(answer: Answer): void;
}

/** Answers for this process. */
export interface OwnAnswers {
  /** May be told as soon as the batch is stored. */
  stored: readonly Answer[];
  /** Are told when it is committed. */
  committed: readonly Answer[];
}

/** What the owners of slots and those who asked are told: the messages to the fast path and the answers. */
export function messagesFor(
  works: readonly Work[],
  told: Told,
  ofLines: readonly ShardMessage[],
  { slots, answersPartitions, here }: { slots: ShardSlots; answersPartitions: number; here: string | null },
): AppliedMessages & { own: OwnAnswers } {
  const fast: BusMessage[] = [];
  const answers: BusMessage[] = [];
  const own = { stored: [] as Answer[], committed: [] as Answer[] };
  const tell = ({ shard, message }: ShardMessage): void => {
    const key = `${shard}-${message.number}`;
    fast.push({ partition: slots.partition(shard), key, value: encodeMessage(message) });
  };
  for (const message of ofLines) tell(message);
  for (const work of works) {
    for (const message of told.messagesOf(work)) tell(message);
    for (const done of work.sequence.done) {
      const { replyTo } = done.change;
      if (replyTo === undefined) continue;
      const follows = ownerFollows(work, done, told);
      if (replyTo === here)
        own[standsWhenStored(done, follows) ? 'stored' : 'committed'].push(ownAnswer(done, replyTo, follows));
      else {
        const value = encodedAnswer(done, replyTo, follows);
        answers.push({ partition: partitionOf(replyTo, answersPartitions), key: replyTo, value });
      }
    }
  }
  return { fast, answers, own };
}

/**
 * Whether a change stands as soon as its batch is in the stores: it made a version, which the same records again find with its
 * outcome, and no owner has to be told. What wrote nothing (a refusal, no change) is decided anew when the records come
 * again after a crash; what an owner must hear of is in force when the message to him is committed.
 */
function standsWhenStored({ change, outcome }: ChangeDone, follows: boolean): boolean {
  return outcome.ok && !follows && outcome.result !== 'unchanged' && change.action.kind !== 'move';
}

function ownAnswer({ change, outcome, job }: ChangeDone, replyTo: string, ownerFollows: boolean): Answer {
  const answer: Answer = { v: 1, id: change.id, replyTo, from: 'applier', ownerFollows, outcome };
  return change.wantsJob && outcome.ok && job !== null ? { ...answer, job } : answer;
}

/** The messages of several batches as one. */
export function together(all: readonly AppliedMessages[]): TopicMessages[] {
  const batch = [
    { topic: TOPICS.fast, messages: all.flatMap(({ fast }) => fast) },
    { topic: TOPICS.answers, messages: all.flatMap(({ answers }) => answers) },
  ];
  return batch.filter(({ messages }) => messages.length > 0);
}

function ownerFollows(work: Work, { offset, outcome, repeated }: ChangeDone, told: Told): boolean {
  const changed = outcome.ok && outcome.result !== 'unchanged' && !repeated;
  return changed && told.ownerFollows(work, offset, outcome.result === 'fired');
}

function encodedAnswer({ change, outcome, job }: ChangeDone, replyTo: string, ownerFollows: boolean): Uint8Array {
  const answer: Answer = { v: 1, id: change.id, replyTo, from: 'applier', ownerFollows, outcome };
  const wanted = change.wantsJob && outcome.ok && job !== null && job.payload.length < ANSWER_BYTES;
  if (!wanted) return encodeMessage(answer);
  const { replay: _, position: __, ...answered } = job;
  const whole = encodeMessage({ ...answer, job: answered });
  return whole.length <= ANSWER_BYTES ? whole : encodeMessage(answer);
}
