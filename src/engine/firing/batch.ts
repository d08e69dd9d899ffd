import { triggerMessage } from '../../core/envelope.ts';
import { LIMITS } from '../../core/limits.ts';
import type { BusMessage, TopicMessages } from '../../ports/bus.ts';
import type { Position, Target } from './plan.ts';

/** Triggers of one job in a batch, and where the job stands when they are acknowledged. */
export interface Item {
  entry: number;
  topic: string;
  partition: number;
  cluster: string;
  /** Its messages are `messages[first]` to `messages[first + count - 1]` of the batch. */
  first: number;
  count: number;
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

/** Triggers that go out together, in order per job. */
export class Batch {
  readonly items: Item[] = [];
  readonly messages: BusMessage[] = [];
  /** Lateness in runs of one effective time and cluster: cluster, effective time, number of triggers. */
  readonly runs: { cluster: string; effectiveMs: number; n: number }[] = [];
  /** T stays below this until the batch is acknowledged, UTC ms: its oldest time that no cursor covers. */
  oldestMs = Number.POSITIVE_INFINITY;
  private bytes = 0;
  private readonly most: number;

  /** `most`: how many times the usual size it may have before it takes nothing more. */
  constructor(most: number) {
    this.most = most;
  }

  /** It has its usual size: no further tick is begun. */
  get filled(): boolean {
    return this.messages.length >= LIMITS.publishBatchTriggers || this.bytes >= LIMITS.publishBatchBytes;
  }

  /** It takes nothing more. */
  get full(): boolean {
    const { most } = this;
    return this.messages.length >= most * LIMITS.publishBatchTriggers || this.bytes >= most * LIMITS.publishBatchBytes;
  }

  add(target: Target, executionId: string, nominalMs: number, effectiveMs: number): void {
    this.messages.push(triggerMessage(target.head, executionId, nominalMs, effectiveMs));
    this.bytes += target.bytes;
  }

  /** Counts a trigger that is no misfire for the lateness of its time. */
  onTime(cluster: string, effectiveMs: number): void {
    const run = this.runs.at(-1);
    if (run !== undefined && run.effectiveMs === effectiveMs && run.cluster === cluster) run.n += 1;
    else this.runs.push({ cluster, effectiveMs, n: 1 });
  }

  topics(): TopicMessages[] {
    const byTopic = new Map<string, BusMessage[]>();
    for (const { topic, first, count } of this.items) {
      const messages = byTopic.get(topic) ?? [];
      byTopic.set(topic, messages);
      for (let i = first; i < first + count; i += 1) messages.push(this.messages[i]!);
    }
    return [...byTopic].map(([topic, messages]) => ({ topic, messages }));
  }
}
