import type { Cluster, Delivery } from '../../core/job.ts';
import type { Answer, Cursor } from '../../core/messages.ts';
import { slotName, slotPartition } from '../../core/topics.ts';
import { Wheel } from '../../core/wheel.ts';
import type { BusLane, BusProducer, BusReader, BusRecord } from '../../ports/bus.ts';
import type { Installation } from '../../ports/catalog-store.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Stores } from '../../ports/stores.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Batch } from './batch.ts';
import type { CommitBudget } from './commit-budget.ts';
import { Entries } from './entries.ts';
import { Fifo } from './fifo.ts';
import { Holds } from './holds.ts';
import { Left } from './left-jobs.ts';
import { Shards } from './shard-run.ts';

/** What a slot runner needs. */
export interface SlotOptions {
  stores: Pick<Stores, 'bus' | 'jobs' | 'catalog' | 'shards' | 'triggers'>;
  clock: Clock;
  telemetry: Telemetry;
  installation: Pick<Installation, 'id' | 'slotsPerSet'> & Partial<Pick<Installation, 'lanesPerSlot'>>;
  delivery: Delivery;
  slot: number;
  epoch: number;
  incarnation: string;
  /** For triggers of at-least-once slots and for answers; shared by the slots of one wheel, closed by whoever opened it. */
  producer: BusProducer;
  /** Transactions of exactly-once slots, shared by the slots of one wheel; absent: without bound. */
  budget?: CommitBudget;
  /** An occurrence that is unpublished for longer is a misfire, in ms. */
  misfireAfterMs: number;
  /** Whether the worker trusts its lease now (I4): nothing is published while it does not. */
  trusted(): boolean;
  /** Called when there may be something to do before the next tick. */
  wake?(): void;
  /** Called once when the slot was lost: a newer owner, or another holder of the lane. */
  lost?(reason: string): void;
}

export type Phase = 'new' | 'adopting' | 'running' | 'draining' | 'lost' | 'closed';

/** (T, O) with the number of its record; see `core/messages.ts`. */
export interface Watermark {
  t: number;
  o: number;
  n: number;
}

/** A job that cannot fire and the reason for people. */
export interface FailedJob {
  shard: number;
  number: number;
  version: number;
  reason: string;
}

/** Everything that the steps of one slot share. `slot.ts` tells in prose what may be in which phase. */
export class SlotState {
  readonly options: SlotOptions;
  /** Name in metrics, e.g. `a3`. */
  readonly name: string;
  /** Partition of the slot in the fast path, progress and cursor topics. */
  readonly partition: number;
  phase: Phase = 'new';
  entries = new Entries();
  wheel = new Wheel(0);
  /** Entries that are due and wait for room in a batch. */
  ready = new Fifo();
  readonly shards = new Shards();
  readonly clusters = new Map<string, Cluster>();
  /** What takes no triggers now; see `away.ts`. */
  readonly away = new Set<string>();
  holds = new Holds();
  /** They take turns, so that the marks of one transaction are written before its lane begins another. */
  lanes: BusLane[] = [];
  /** Commits so far: whose turn it is. */
  commits = 0;
  reader: BusReader | null = null;
  /** Messages of the fast path that were read and are not applied yet, in order. */
  readonly unapplied: BusRecord[] = [];
  /** What the last commit carries, on the way or durable. */
  mark: Watermark = { t: 0, o: 0, n: 0 };
  /** What was committed last. */
  durable: Watermark = { t: 0, o: 0, n: 0 };
  /** Cursors that changed since the last commit, by key; null ends one. */
  cursors = new Map<string, Cursor | null>();
  /** Open cursors that the former owner left, by key, until the entries are there. */
  inherited = new Map<string, Cursor>();
  /** Shards that stood behind T in the last record of the former owner, with the T of each. */
  lagging = new Map<number, number>();
  /** Lineages of the trigger store, as progress tells them: none where there is no record yet. */
  lineages: readonly string[] = [];
  /** Epoch of the last record of progress before the takeover; 0: there is none. */
  formerEpoch = 0;
  /** Rebuilds begun: with the epoch it makes their numbers. */
  builds = 0;
  /** Connections of the trigger store when the shards were last known to be as they were left. */
  connections = 0;
  /** Jobs that left and whose message may come late, by key; see `left.ts`. */
  readonly left = new Left();
  /** Batches that are not acknowledged yet. */
  readonly batches = new Set<Batch>();
  /** The commit that runs on the lane; there is one at a time. */
  committing: Promise<void> | null = null;
  /** Something was acknowledged or read since the last commit. */
  moved = false;
  committedMs = 0;
  /** When the last successful commit was begun, monotonic ms: until then nobody had fenced the lane. */
  provenMs = Number.NEGATIVE_INFINITY;
  /** Nothing is sent before this, monotonic ms, after `failures` failures in a row. */
  restUntilMs = 0;
  failuresInARow = 0;
  failed: FailedJob[] = [];
  answers: Answer[] = [];
  /** Partitions of the answers topic, which never change; null: not asked yet. */
  answersPartitions: number | null = null;
  /** When the last batch was begun, monotonic ms. */
  begunMs = Number.NEGATIVE_INFINITY;
  /** How long the bus takes to answer a batch, in ms: each new answer counts for an eighth. */
  answerMs = 0;
  /** Triggers acknowledged since the beginning: a rate is made of it. */
  published = 0;

  constructor(options: SlotOptions) {
    this.options = options;
    this.name = slotName(options.delivery, options.slot);
    this.partition = slotPartition(options.delivery, options.slot, options.installation.slotsPerSet);
  }

  /** The lane of the next commit; null: none is open. */
  get lane(): BusLane | null {
    return this.lanes[this.commits % this.lanes.length] ?? null;
  }

  get running(): boolean {
    return this.phase === 'running' || this.phase === 'draining';
  }

  /** The least horizon of the shards that keep up; one that is lost has a T of its own. */
  get horizonMs(): number {
    return this.shards.horizonMs;
  }

  count(name: string, labels: Readonly<Record<string, string>> = {}, by = 1): void {
    this.options.telemetry.count(name, { slot: this.name, ...labels }, by);
  }

  event(level: 'info' | 'warn' | 'error', message: string, fields: Record<string, unknown> = {}): void {
    this.options.telemetry.event(level, message, { slot: this.name, epoch: this.options.epoch, ...fields });
  }

  /** Ends the ownership at once: entries are dropped, nothing of it is published any more. */
  lose(reason: string): void {
    if (this.phase === 'lost' || this.phase === 'closed') return;
    this.phase = 'lost';
    this.forget();
    this.count('slots_lost_total');
    this.event('warn', 'a slot was lost', { reason });
    this.options.lost?.(reason);
  }

  forget(): void {
    this.entries = new Entries();
    this.wheel = new Wheel(this.wheel.timeMs);
    this.ready = new Fifo();
    this.holds = new Holds();
    this.unapplied.length = 0;
    this.cursors.clear();
    this.inherited.clear();
    this.left.clear();
    this.batches.clear();
    this.shards.clear();
    this.failed = [];
  }
}
