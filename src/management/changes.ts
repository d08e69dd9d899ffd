import { randomUUID } from 'node:crypto';
import { carillonError } from '../core/errors.ts';
import type { ChangeOutcome } from '../core/job.ts';
import { LIMITS } from '../core/limits.ts';
import { type Answer, type AnsweredJob, type Change, changeKey, encodeMessage } from '../core/messages.ts';
import { partitionOf } from '../core/murmur2.ts';
import { TOPICS } from '../core/topics.ts';
import type { AnswersHere } from '../engine/change/tell.ts';
import type { Bus, BusMessage, BusProducer, SendFailure } from '../ports/bus.ts';
import type { Clock } from '../ports/clock.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { loop, type Service, service } from '../runtime/service.ts';
import { answerReaders } from './answers.ts';

export interface ChangesDeps {
  bus: Bus;
  clock: Clock;
  telemetry: Telemetry;
  changesPartitions: number;
  /** Random name of this API process, to which answers are keyed. */
  incarnation: string;
  answerWaitMs?: number;
  ownerAnswerWaitMs?: number;
  /** Bound of the changes that wait to be sent. */
  queueMost?: number;
}

/** What the applier answered, with the job where that was wanted and the answer has it. */
export interface Applied {
  outcome: ChangeOutcome;
  job: AnsweredJob | null;
}

/** A change as a route makes it; a random id is made up for it. */
export type NewChange = Omit<Change, 'v' | 'id' | 'replyTo'> & { id?: string };

/** Changes and bytes of one send: bounds a request to the bus. */
const SEND_CHANGES = 1_000;
const SEND_BYTES = 4 * 1024 * 1024;
const QUEUE_MOST = 10_000;
const SEND_RETRY_MS = 50;
/**
 * Two sends begin at least so far apart, in ms: what comes meanwhile goes with the next one, through topic, applier and
 * stores. A change waits 2 ms more on the average where there are many, and not at all where there are few. (m, 2,000 single
 * creates/s on 2 cores with all servers: 730 -> 510 us of CPU a create in all processes, p50 10 -> 7 ms, p90 25 -> 15 ms.)
 */
const SEND_EVERY_MS = 4;
const IDLE_MS = 60_000;

interface Waiting {
  id: string;
  message: BusMessage;
  /** `queued`: nothing has happened; `sending`: the bus has it and has not answered; `sent`: it is durable. */
  state: 'queued' | 'sending' | 'sent' | 'over';
  /** The applier's answer, while the owner's is waited for. */
  applied: Applied | null;
  ownerDone: boolean;
  promise: Promise<Applied | null>;
  resolve: (applied: Applied | null) => void;
  reject: (error: Error) => void;
  cancelTimer: () => void;
}

/** The one way in for every change: a batching producer to the changes topic, and the answers that come back for them. */
export class Changes implements Service, AnswersHere {
  readonly #deps: ChangesDeps;
  readonly #queueMost: number;
  readonly #waiting = new Map<string, Waiting>();
  #queue: Waiting[] = [];
  #producer: BusProducer | null = null;
  /** When the last send began, monotonic ms. */
  #begunMs = Number.NEGATIVE_INFINITY;
  readonly #sender: ReturnType<typeof loop>;
  readonly #all: Service;

  constructor(deps: ChangesDeps) {
    const { bus, clock, telemetry } = deps;
    this.#deps = deps;
    this.#queueMost = deps.queueMost ?? QUEUE_MOST;
    this.#sender = loop({ name: 'changes-sender', clock, telemetry, round: (signal) => this.#sendSome(signal) });
    const answers = answerReaders(deps, (answer) => this.answered(answer));
    this.#all = service('changes', telemetry, async () => {
      await answers.start();
      this.#producer = await bus.producer();
      await this.#sender.start();
      return async () => {
        const producer = this.#producer;
        this.#producer = null;
        for (const one of [...this.#waiting.values()]) this.#timeOut(one);
        await this.#sender.stop();
        await answers.stop();
        await producer?.close();
      };
    });
  }

  start(): Promise<void> {
    return this.#all.start();
  }

  stop(): Promise<void> {
    return this.#all.stop();
  }

  /** To whom the answers of this process go. */
  get replyTo(): string {
    return this.#deps.incarnation;
  }

  get ready(): boolean {
    return this.#producer !== null;
  }

  /**
   * Sends one change and waits for the applier's answer, and a little for the owner's. Null: the change is in the topic and
   * no answer came in time. Throws `too-many-requests` and `unavailable` while the change is not in the topic; where the
   * bus itself cannot tell, the detail says so.
   */
  submit(change: NewChange): Promise<Applied | null> {
    const { clock, telemetry, incarnation } = this.#deps;
    if (this.#producer === null) throw carillonError('unavailable', 'the API is not started; nothing was done');
    const id = change.id ?? randomUUID();
    const same = this.#waiting.get(id);
    if (same !== undefined) return same.promise;
    if (this.#queue.length >= this.#queueMost) {
      telemetry.count('changes_refused_total');
      throw carillonError('too-many-requests', `${this.#queueMost} changes wait already; nothing was done`);
    }
    const one: Waiting = {
      id,
      message: this.message({ ...change, v: 1, id, replyTo: incarnation }),
      state: 'queued',
      applied: null,
      ownerDone: false,
      ...Promise.withResolvers<Applied | null>(),
      cancelTimer: () => {},
    };
    one.cancelTimer = clock.after(this.#deps.answerWaitMs ?? LIMITS.answerWaitMs, () => this.#timeOut(one));
    this.#waiting.set(id, one);
    this.#queue.push(one);
    this.#sender.wake();
    return one.promise;
  }

  message(change: Change): BusMessage {
    const key = changeKey(change.cluster, change.key);
    return { partition: partitionOf(key, this.#deps.changesPartitions), key, value: encodeMessage(change) };
  }

  /** Sends changes that nobody waits for; they are durable when it answers, else `unavailable`. */
  async send(messages: readonly BusMessage[]): Promise<void> {
    const producer = this.#producer;
    if (producer === null) throw carillonError('unavailable', 'the API is not started; nothing was done');
    const [failure] = await producer.send([{ topic: TOPICS.changes, messages }]);
    if (failure !== undefined) throw refusedBy(failure);
  }

  async #sendSome(signal: AbortSignal): Promise<number> {
    const { clock, telemetry } = this.#deps;
    if (this.#queue.length > 0) {
      const restMs = this.#begunMs + SEND_EVERY_MS - clock.monotonicMs();
      if (restMs > 0) await clock.sleep(restMs, signal);
      this.#begunMs = clock.monotonicMs();
    }
    const batch = this.#take();
    telemetry.gauge('changes_queue_depth', this.#queue.length);
    telemetry.gauge('changes_queue_bound', this.#queueMost);
    const live = () => batch.filter(({ state }) => state === 'sending');
    for (let left = batch; left.length > 0; left = live()) {
      try {
        const messages = left.map(({ message }) => message);
        const failures = (await this.#producer?.send([{ topic: TOPICS.changes, messages }])) ?? [];
        for (const one of left) {
          const failure = failures.find(({ partition }) => partition === one.message.partition);
          if (failure !== undefined) this.#end(one, refusedBy(failure));
          else if (one.state === 'sending') one.state = 'sent';
        }
      } catch (error) {
        // Nobody knows whether they arrived: the same changes go again, with the same ids, until their time is over.
        telemetry.count('changes_send_errors_total');
        telemetry.event('warn', 'changes could not be sent and are sent again', { error: String(error) });
        await clock.sleep(SEND_RETRY_MS);
      }
    }
    return this.#queue.length > 0 ? 0 : IDLE_MS;
  }

  #take(): Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const { message } of this.#queue) {
      bytes += message.value?.length ?? 0;
      if (count === SEND_CHANGES || (count > 0 && bytes > SEND_BYTES)) break;
      count += 1;
    }
    const batch = this.#queue.splice(0, count);
    for (const one of batch) one.state = 'sending';
    return batch;
  }

  answered({ id, from, ownerFollows, outcome, job }: Answer): void {
    const one = this.#waiting.get(id);
    if (one === undefined) return;
    if (from === 'owner') {
      // The owner reads committed messages and may still be heard before the applier; the applier's outcome is the answer.
      one.ownerDone = true;
      if (one.applied !== null) this.#end(one, one.applied);
      return;
    }
    const applied = { outcome, job: job ?? null };
    if (!ownerFollows || one.ownerDone) {
      this.#end(one, applied);
      return;
    }
    one.applied = applied;
    one.cancelTimer();
    const waitMs = this.#deps.ownerAnswerWaitMs ?? LIMITS.ownerAnswerWaitMs;
    one.cancelTimer = this.#deps.clock.after(waitMs, () => this.#end(one, applied));
  }

  #timeOut(one: Waiting): void {
    if (one.state === 'sent' || one.applied !== null) {
      this.#end(one, one.applied);
      return;
    }
    const detail =
      one.state === 'queued'
        ? 'the bus does not take changes now; nothing was done'
        : 'the bus did not say whether it took the change; repeat the request, it is applied once';
    this.#queue = this.#queue.filter((queued) => queued !== one);
    this.#end(one, carillonError('unavailable', detail));
  }

  #end(one: Waiting, end: Applied | null | Error): void {
    if (one.state === 'over') return;
    one.state = 'over';
    one.cancelTimer();
    this.#waiting.delete(one.id);
    if (end instanceof Error) one.reject(end);
    else one.resolve(end);
  }
}

function refusedBy({ code }: SendFailure): Error {
  return carillonError('unavailable', `the changes topic refused the change (${code}); nothing was done`);
}
