import { triggerMessage } from '../../core/envelope.ts';
import { firedExecutionId } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import type { TriggerBatch } from '../../ports/bus.ts';
import type { Plan, Position, Target } from './plan.ts';

/** Triggers of one job in a batch, and where the job stands when they are acknowledged. */
export interface Item {
  entry: number;
  topic: string;
  partition: number;
  /** How many of them there are. */
  count: number;
  /** Plain triggers that stand before them in the batch. */
  behind: number;
  /** Effective time of the last of them, UTC ms. */
  lastMs: number;
  /** Next owed occurrence after these; null: none. */
  after: Position | null;
  /** Misfires among them, and misfires before them that do not fire. */
  late: number;
  dropped: number;
  /** The next misfire of the job waits this long, in ms (0: not at all). */
  restMs: number;
}

/** Arrays of batches that are done are used again, so many at most. */
const SPARE = 64;
const spare: Plain[] = [];

interface Plain {
  entry: Int32Array;
  afterMs: Float64Array;
}

/**
 * Triggers that go out together, in order per job. A *plain* one is the usual case: the one occurrence of a job with nothing
 * else to it (`Entries.plan`); of it a batch keeps two numbers. Everything else has an item.
 */
export class Batch {
  readonly triggers: TriggerBatch;
  readonly items: Item[] = [];
  /** Plain triggers: the entries, and the nominal time of the next occurrence of each (or NO_OCCURRENCE). */
  plainCount = 0;
  #plain: Plain;
  /** Lateness in runs of one effective time and cluster: cluster, effective time, number of triggers. */
  readonly runs: { cluster: string; effectiveMs: number; n: number }[] = [];
  /** T stays below this until the batch is acknowledged, UTC ms: its oldest time that no cursor covers. */
  oldestMs = Number.POSITIVE_INFINITY;
  /** The latest effective time of an item that no cursor covers, UTC ms. */
  itemsLastMs = Number.NEGATIVE_INFINITY;
  /** The latest effective time of a plain trigger, and the earliest of those that come next, UTC ms. */
  plainLastMs = Number.NEGATIVE_INFINITY;
  plainNextMs = Number.POSITIVE_INFINITY;
  readonly #most: number;

  /** `most`: how many times the usual size it may have before it takes nothing more. */
  constructor(triggers: TriggerBatch, most: number) {
    this.triggers = triggers;
    this.#most = most;
    this.#plain = spare.pop() ?? { entry: new Int32Array(1_024), afterMs: new Float64Array(1_024) };
  }

  get count(): number {
    return this.triggers.count;
  }

  /** It has its usual size: no further tick is begun. */
  get filled(): boolean {
    const { count, bytes } = this.triggers;
    return count >= LIMITS.publishBatchTriggers || bytes >= LIMITS.publishBatchBytes;
  }

  /** It takes nothing more. */
  get full(): boolean {
    const { count, bytes } = this.triggers;
    return count >= this.#most * LIMITS.publishBatchTriggers || bytes >= this.#most * LIMITS.publishBatchBytes;
  }

  addPlain(
    entry: number,
    plan: Plan,
    shard: number,
    number: number,
    nominalMs: number,
    effectiveMs: number,
    afterMs: number,
  ): void {
    this.triggers.add(plan.topic, plan.head, shard, number, nominalMs, effectiveMs);
    const at = this.plainCount;
    if (at === this.#plain.entry.length) this.#grow();
    this.#plain.entry[at] = entry;
    this.#plain.afterMs[at] = afterMs;
    this.plainCount = at + 1;
    this.onTime(plan.cluster, effectiveMs);
    if (effectiveMs < this.oldestMs) this.oldestMs = effectiveMs;
    if (effectiveMs > this.plainLastMs) this.plainLastMs = effectiveMs;
    if (afterMs !== NO_OCCURRENCE && afterMs + plan.offsetMs < this.plainNextMs) {
      this.plainNextMs = afterMs + plan.offsetMs;
    }
  }

  add({ topic, head }: Target, shard: number, number: number, nominalMs: number, effectiveMs: number): void {
    this.triggers.add(topic, head, shard, number, nominalMs, effectiveMs);
  }

  addRun({ topic, head }: Target, shard: number, number: number, nominalMs: number, requestKey: string): void {
    const id = firedExecutionId(shard, number, nominalMs, requestKey);
    this.triggers.message(topic, triggerMessage(head, id, nominalMs, nominalMs));
  }

  plainEntry(at: number): number {
    return this.#plain.entry[at]!;
  }

  plainAfterMs(at: number): number {
    return this.#plain.afterMs[at]!;
  }

  /** Counts a trigger that is no misfire for the lateness of its time. */
  onTime(cluster: string, effectiveMs: number): void {
    const run = this.runs.at(-1);
    if (run !== undefined && run.effectiveMs === effectiveMs && run.cluster === cluster) run.n += 1;
    else this.runs.push({ cluster, effectiveMs, n: 1 });
  }

  /** Nobody asks the batch for its plain triggers any more. */
  done(): void {
    if (spare.length < SPARE) spare.push(this.#plain);
    this.plainCount = 0;
  }

  #grow(): void {
    const { entry, afterMs } = this.#plain;
    this.#plain = { entry: new Int32Array(entry.length * 2), afterMs: new Float64Array(entry.length * 2) };
    this.#plain.entry.set(entry);
    this.#plain.afterMs.set(afterMs);
  }
}
