import { setTimeout as delay } from 'node:timers/promises';
import type { ConsumerEvent, ConsumerOptions, TriggerHandler } from './consumer.ts';
import type { PartitionProgress } from './progress.ts';
import { type ReceivedRecord, type Trigger, type TriggerContent, triggerContent } from './trigger.ts';

/** First and longest pause before a claim that somebody else holds is asked for again, in ms. */
const HELD_FIRST_MS = 50;
const HELD_MOST_MS = 1_000;

interface Entry {
  readonly progress: PartitionProgress;
  readonly record: ReceivedRecord;
  readonly content: TriggerContent;
  /** The handler has ended well; with manual commit `settled` follows later. */
  handled: boolean;
  settled: boolean;
}

/** The triggers of one job that are here, in order; the first one is running or ready. */
type Lane = Entry[];

type Settings = Required<Omit<ConsumerOptions, 'group' | 'deduplicator' | 'retry' | 'onError' | 'onEvent' | 'drainMs'>>;

/**
 * Runs handlers: the part that is the same for Kafka, HTTP and in-process consumers. Triggers of one job (same topic,
 * partition and key) run one after another, in the order of their offsets; of different jobs up to `concurrency` at once.
 * A trigger that fails is tried again while its job waits. What is done is settled in its partition's progress.
 */
export class Dispatcher {
  private readonly handler: (topic: string) => TriggerHandler | undefined;
  private readonly options: ConsumerOptions;
  private readonly settings: Settings;
  private readonly onSettled: () => void;
  private readonly onFailure: (error: unknown) => void;
  private readonly lanes = new Map<string, Lane>();
  private readonly ready: { id: string; lane: Lane }[] = [];
  /** Triggers that were begun and not ended: the handler runs or, with manual commit, the commit has not come. */
  private readonly begun = new Map<PartitionProgress, Set<Entry>>();
  private running = 0;
  private waiting = 0;
  private waitingBytes = 0;
  /** Called at the next change of `waiting` or `begun`. */
  private watchers: (() => void)[] = [];

  /**
   * @param onSettled told after a trigger was settled, to store offsets
   * @param onFailure told when a trigger failed for good and the policy says stop
   */
  constructor(
    handler: (topic: string) => TriggerHandler | undefined,
    options: ConsumerOptions,
    onSettled: () => void,
    onFailure: (error: unknown) => void,
  ) {
    this.handler = handler;
    this.options = options;
    this.onSettled = onSettled;
    this.onFailure = onFailure;
    this.settings = {
      concurrency: options.concurrency ?? 10,
      commit: options.commit ?? 'automatic',
      commitEveryMs: options.commitEveryMs ?? 200,
      maxWaiting: options.maxWaiting ?? 10_000,
      maxWaitingBytes: options.maxWaitingBytes ?? 64 * 1024 * 1024,
    };
    for (const [name, value] of Object.entries(this.settings)) {
      if (typeof value === 'number' && !(value >= 1)) throw new RangeError(`${name} must be at least 1`);
    }
  }

  /** Takes one record, when there is room; false: the partition was given back before there was. */
  async add(progress: PartitionProgress, record: ReceivedRecord): Promise<boolean> {
    while (progress.open && this.full()) await this.change();
    if (!progress.open) return false;
    if (!progress.take(record.offset)) return true;
    const content = triggerContent(record);
    if (content === null) {
      const { topic, partition, offset } = record;
      this.tell({ kind: 'not-a-trigger', topic, partition, offset });
      this.settle(progress, offset);
      return true;
    }
    this.waiting += 1;
    this.waitingBytes += record.value.length;
    const id = `${record.topic}/${record.partition}/${record.key}`;
    const entry: Entry = { progress, record, content, handled: false, settled: false };
    const lane = this.lanes.get(id);
    if (lane) {
      lane.push(entry);
    } else {
      const opened = [entry];
      this.lanes.set(id, opened);
      this.ready.push({ id, lane: opened });
      this.pump();
    }
    return true;
  }

  /**
   * Gives partitions back: nothing of them is begun any more; what runs, and with manual commit what waits for it, may end.
   * @returns false when some have not ended after `drainMs`; their claims are let go where no handler runs any more
   */
  async drain(partitions: Iterable<PartitionProgress>, drainMs: number): Promise<boolean> {
    const closing = [...partitions];
    for (const progress of closing) progress.close();
    this.changed();
    const timeout = new AbortController();
    const deadline = delay(drainMs, undefined, { ref: false, signal: timeout.signal }).catch(() => {});
    let inTime = true;
    while (inTime && this.busy(closing)) {
      inTime = await Promise.race([deadline.then(() => false), this.change().then(() => true)]);
    }
    timeout.abort();
    if (!this.busy(closing)) return true;
    this.tell({ kind: 'drain-timeout', running: this.running });
    for (const progress of closing) {
      for (const entry of this.begun.get(progress) ?? []) if (entry.handled) await this.release(entry.content.id);
      this.begun.delete(progress);
    }
    return false;
  }

  /** Whether a trigger of one of these partitions was begun and has not ended. */
  busy(partitions: Iterable<PartitionProgress>): boolean {
    for (const progress of partitions) if (this.begun.has(progress)) return true;
    return false;
  }

  private full(): boolean {
    return this.waiting >= this.settings.maxWaiting || this.waitingBytes >= this.settings.maxWaitingBytes;
  }

  private pump(): void {
    while (this.running < this.settings.concurrency) {
      const next = this.ready.shift();
      if (next === undefined) return;
      const entry = next.lane[0]!;
      this.running += 1;
      this.begin(entry);
      this.run(entry)
        .catch((error: unknown) => this.onFailure(error))
        .finally(() => this.ended(next.id, next.lane));
    }
  }

  private begin(entry: Entry): void {
    const begun = this.begun.get(entry.progress);
    if (begun) begun.add(entry);
    else this.begun.set(entry.progress, new Set([entry]));
  }

  /** The trigger needs nothing more: it was settled, or it is left for whoever gets it next. */
  private end(entry: Entry): void {
    const begun = this.begun.get(entry.progress);
    begun?.delete(entry);
    if (begun?.size === 0) this.begun.delete(entry.progress);
    this.changed();
  }

  private ended(id: string, lane: Lane): void {
    const entry = lane.shift()!;
    this.waiting -= 1;
    this.waitingBytes -= entry.record.value.length;
    this.running -= 1;
    if (lane.length > 0) this.ready.push({ id, lane });
    else this.lanes.delete(id);
    if (entry.settled || !entry.handled) this.end(entry);
    else this.changed();
    this.pump();
  }

  /** One trigger, all its attempts. Ends without settling it when the partition is given back. */
  private async run(entry: Entry): Promise<void> {
    const { attempts = 5, firstMs = 200, maxMs = 10_000 } = this.options.retry ?? {};
    const { progress, content } = entry;
    for (let attempt = 1; progress.open; attempt++) {
      const trigger = this.trigger(entry, attempt);
      try {
        await this.attempt(entry, trigger);
        return;
      } catch (error) {
        this.tell({ kind: 'attempt-failed', id: content.id, attempt, error });
        await this.release(content.id);
        if (attempt >= attempts) {
          await this.giveUp(entry, trigger, error);
          return;
        }
      }
      await pause(Math.min(maxMs, firstMs * 2 ** (attempt - 1)), progress.signal);
    }
  }

  private async attempt(entry: Entry, trigger: Trigger): Promise<void> {
    const { progress, content, record } = entry;
    const claim = await this.claim(content.id, progress);
    if (claim === 'given-back') return;
    if (claim === 'done') {
      this.tell({ kind: 'duplicated', id: content.id });
      this.settle(progress, record.offset);
      return;
    }
    const handler = this.handler(record.topic);
    if (handler === undefined) throw new Error(`there is no handler for topic ${record.topic}`);
    await handler(trigger);
    entry.handled = true;
    if (this.settings.commit === 'automatic') await this.finish(entry);
  }

  private async claim(id: string, progress: PartitionProgress): Promise<'claimed' | 'done' | 'given-back'> {
    const { deduplicator } = this.options;
    if (deduplicator === undefined) return 'claimed';
    for (let pauseMs = HELD_FIRST_MS; progress.open; pauseMs = Math.min(HELD_MOST_MS, pauseMs * 2)) {
      const claim = await deduplicator.claim(id);
      if (claim !== 'held') return claim;
      await pause(pauseMs, progress.signal);
    }
    return 'given-back';
  }

  /** The trigger is done. A confirmation that fails is told and not repeated: the stored offset keeps it from coming again. */
  private async finish(entry: Entry): Promise<void> {
    if (entry.settled) return;
    entry.settled = true;
    try {
      await this.options.deduplicator?.confirm(entry.content.id);
    } catch (error) {
      this.tell({ kind: 'confirm-failed', id: entry.content.id, error });
    }
    this.settle(entry.progress, entry.record.offset);
    if (entry.handled) this.end(entry);
  }

  private async giveUp(entry: Entry, trigger: Trigger, error: unknown): Promise<void> {
    const decision = (await this.options.onError?.(error, trigger)) ?? 'stop';
    if (decision === 'stop') throw error;
    this.tell({ kind: 'skipped', id: entry.content.id, error });
    await this.finish(entry);
  }

  private async release(id: string): Promise<void> {
    try {
      await this.options.deduplicator?.release(id);
    } catch {
      // The claim then ends with its lease.
    }
  }

  private trigger(entry: Entry, attempt: number): Trigger {
    const { record, content } = entry;
    const { topic, partition, offset, headers, value: bytes } = record;
    const text = () => new TextDecoder().decode(bytes);
    const commit = async () => {
      if (this.settings.commit === 'manual') await this.finish(entry);
    };
    const nominal = new Date(content.nominalMs);
    const payload = (): unknown => JSON.parse(text());
    return { ...content, nominal, bytes, headers, topic, partition, offset, attempt, payload, text, commit };
  }

  private settle(progress: PartitionProgress, offset: number): void {
    progress.settle(offset);
    this.onSettled();
  }

  private tell(event: ConsumerEvent): void {
    this.options.onEvent?.(event);
  }

  private change(): Promise<void> {
    return new Promise((resolve) => this.watchers.push(resolve));
  }

  private changed(): void {
    const watchers = this.watchers;
    this.watchers = [];
    for (const wake of watchers) wake();
  }
}

/** A pause that ends early, without an error, when the signal is aborted. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {});
}
