import { randomUUID } from 'node:crypto';
import type { Delivery, Job } from '../../core/job.ts';
import { type Change, type ChangeAction, changeKey, encodeMessage } from '../../core/messages.ts';
import { partitionOf } from '../../core/murmur2.ts';
import { slotPartition, TOPICS } from '../../core/topics.ts';
import type { BusProducer } from '../../ports/bus.ts';
import type { Shard } from '../../ports/shard-store.ts';
import type { AllotContext } from './context.ts';
import type { Leader } from './leader.ts';
import { MoveAnswers } from './move-answers.ts';
import { SlotLog } from './slot-log.ts';

/**
 * How far ahead the cut of a move lies, in ms: beyond every horizon, and so far that a move which its manager does not go on
 * with has time to find another one.
 */
const CUT_AHEAD_MS = 120_000;
/** A job goes only while its cut is at least this far away, in ms: far above the difference of any two clocks. */
const GO_BEFORE_MS = 10_000;
/** Jobs that are on the move at the same time, in all shards: each has two places, and its changes go to both. */
const MOVING_MOST = 1_000;
/** Moves that one round begins. */
const BEGIN_AT_ONCE = 100;
/** A step whose effect is not seen after this long, in ms, is taken again. */
const STEP_AGAIN_MS = 10_000;
/** A job that was changed less than this long ago, in ms, is left in peace. */
const QUIET_MS = 10_000;
/** No job leaves a slot whose T is further behind than this, in ms: its owner is away, or has more urgent work. */
const HEALTHY_LAG_MS = 3_000;

/** Jobs on the move go a step further this often, in ms; while there are none, and no shard drains, this often is looked. */
const STEP_EVERY_MS = 500;
const LOOK_EVERY_MS = 5_000;

type Step = Extract<ChangeAction, { kind: 'move' }>['step'];

interface Taken {
  step: Step;
  id: string;
  sentMs: number;
}

/** For tests, which cannot wait for minutes. */
export interface MoveTimes {
  cutAheadMs?: number;
  goBeforeMs?: number;
  quietMs?: number;
  againMs?: number;
}

/**
 * Moves the jobs of draining shards to others; `engine/change/move.ts` tells the steps and why they are safe. What is under
 * way stands in the jobs themselves, so a manager that takes over goes on from there: a job that has only begun begins again,
 * one that has gone comes to its end. Everything that this class remembers is only to wait, and to know that a version which
 * it asked for is in force.
 */
export class Mover {
  readonly #context: AllotContext;
  readonly #leader: Leader;
  readonly #times: Required<MoveTimes>;
  readonly #answers: MoveAnswers;
  #producer: BusProducer | null = null;
  readonly #logs = new Map<number, SlotLog>();
  /** By the name of the job: the last step that was taken. */
  readonly #taken = new Map<string, Taken>();
  /** By shard: number of the job up to which its jobs were looked at. */
  readonly #lookedTo = new Map<number, number>();

  constructor(context: AllotContext, leader: Leader, times: MoveTimes = {}) {
    this.#context = context;
    this.#leader = leader;
    this.#times = {
      cutAheadMs: CUT_AHEAD_MS,
      goBeforeMs: GO_BEFORE_MS,
      quietMs: QUIET_MS,
      againMs: STEP_AGAIN_MS,
      ...times,
    };
    this.#answers = new MoveAnswers(context.stores.bus);
  }

  /** One round; only the leader acts. Answers how long to wait for the next one, in ms. */
  async run(): Promise<number> {
    if (!this.#leader.trusted()) {
      await this.close();
      return STEP_EVERY_MS;
    }
    const { stores, telemetry } = this.#context;
    // Jobs that move first: what they wait for is read after them.
    const moving = await stores.jobs.using({ moving: true }, null, MOVING_MOST);
    const shards = new Map((await stores.shards.shards()).map((shard) => [shard.id, shard]));
    const draining = [...shards.values()].filter(({ state }) => state === 'draining');
    telemetry.gauge('jobs_moving', moving.length);
    if (moving.length === 0 && draining.length === 0) {
      await this.close();
      return LOOK_EVERY_MS;
    }
    this.#producer ??= await stores.bus.producer();
    await this.#answers.read();
    await this.#readLogs(
      [...moving.map(({ shard, move }) => move?.from?.shard ?? shard), ...draining.map(({ id }) => id)],
      shards,
    );
    const changes = moving.flatMap((job) => this.#goOn(job, shards));
    changes.push(...(await this.#begin(draining, MOVING_MOST - moving.length)));
    await this.#send(changes);
    return STEP_EVERY_MS;
  }

  async close(): Promise<void> {
    const producer = this.#producer;
    const logs = [...this.#logs.values()];
    this.#producer = null;
    this.#logs.clear();
    this.#taken.clear();
    this.#lookedTo.clear();
    await Promise.allSettled([producer?.close(), this.#answers.close(), ...logs.map((log) => log.close())]);
  }

  /** Brings what is known of these shards' slots up to date, and forgets that of others. */
  async #readLogs(ids: readonly number[], shards: ReadonlyMap<number, Shard>): Promise<void> {
    const wanted = new Set(ids.flatMap((id) => (shards.has(id) ? [this.#partition(shards.get(id)!)] : [])));
    for (const [partition, log] of this.#logs) {
      if (wanted.has(partition)) continue;
      this.#logs.delete(partition);
      await log.close();
    }
    for (const partition of wanted) {
      const log = this.#logs.get(partition) ?? (await SlotLog.open(this.#context.stores.bus, partition));
      this.#logs.set(partition, log);
      try {
        await log.read();
      } catch (error) {
        // Whatever it is, the log is read from its beginning the next time.
        this.#logs.delete(partition);
        await log.close();
        throw error;
      }
    }
  }

  #partition({ delivery, slot }: { delivery: Delivery; slot: number }): number {
    return slotPartition(delivery, slot, this.#context.installation.slotsPerSet);
  }

  #logOf(shard: Shard | undefined): SlotLog | undefined {
    return shard === undefined ? undefined : this.#logs.get(this.#partition(shard));
  }

  /** The next step of a job that moves, if it is time for it. */
  #goOn(job: Job, shards: ReadonlyMap<number, Shard>): Change[] {
    const taken = this.#waits(job);
    const { cutMs, from } = job.move!;
    const { version } = job;
    if (from !== undefined) {
      const log = this.#logOf(shards.get(from.shard));
      const over = log !== undefined && log.t !== null && log.t >= cutMs && !log.owes(from.shard, from.number);
      return over && taken?.step !== 'end' ? [this.#step(job, { kind: 'move', step: 'end' }, version)] : [];
    }
    const inTime = this.#context.clock.wallMs() < cutMs - this.#times.goBeforeMs;
    if (taken?.step === 'begin' && inTime && this.#answers.inForce(taken.id, version)) {
      return [this.#step(job, { kind: 'move', step: 'go' }, version)];
    }
    if (taken !== undefined) return [];
    if (shards.get(job.shard)?.state !== 'draining')
      return [this.#step(job, { kind: 'move', step: 'cancel' }, version)];
    return [this.#step(job, this.#beginning())];
  }

  /** The step whose effect is waited for. */
  #waits(job: Job): Taken | undefined {
    const taken = this.#taken.get(changeKey(job.cluster, job.key));
    return taken !== undefined && this.#context.clock.monotonicMs() - taken.sentMs < this.#times.againMs
      ? taken
      : undefined;
  }

  /** Begins moves out of draining shards, as far as there is room and their slots are well. */
  async #begin(draining: readonly Shard[], room: number): Promise<Change[]> {
    const { stores, clock } = this.#context;
    const changes: Change[] = [];
    for (const shard of draining) {
      const log = this.#logOf(shard);
      const left = Math.min(BEGIN_AT_ONCE, room) - changes.length;
      if (left <= 0) break;
      if (log === undefined || log.t === null || clock.wallMs() - log.t > HEALTHY_LAG_MS) continue;
      const jobs = await stores.jobs.byShard(shard.id, this.#lookedTo.get(shard.id) ?? -1, left);
      this.#lookedTo.set(shard.id, jobs.length < left ? -1 : jobs.at(-1)!.number);
      for (const job of jobs) {
        const quiet = clock.wallMs() - job.updatedMs >= this.#times.quietMs;
        if (job.move !== undefined || !quiet || this.#waits(job) !== undefined || log.owes(shard.id, job.number))
          continue;
        changes.push(this.#step(job, this.#beginning()));
      }
    }
    return changes;
  }

  #beginning(): ChangeAction & { kind: 'move' } {
    return { kind: 'move', step: 'begin', cutMs: this.#context.clock.wallMs() + this.#times.cutAheadMs };
  }

  #step(job: Job, action: ChangeAction & { kind: 'move' }, ifVersion?: number): Change {
    const { clock, telemetry } = this.#context;
    const id = randomUUID();
    const { cluster, key } = job;
    this.#answers.forget(this.#taken.get(changeKey(cluster, key))?.id);
    this.#taken.set(changeKey(cluster, key), { step: action.step, id, sentMs: clock.monotonicMs() });
    telemetry.count('move_steps_total', { step: action.step });
    const condition = ifVersion === undefined ? {} : { ifVersion };
    const reply = action.step === 'begin' ? { replyTo: this.#answers.await(id) } : {};
    return { v: 1, id, cluster, key, atMs: clock.wallMs(), action, ...condition, ...reply };
  }

  async #send(changes: readonly Change[]): Promise<void> {
    const now = this.#context.clock.monotonicMs();
    for (const [name, { id, sentMs }] of this.#taken) {
      if (now - sentMs < this.#times.againMs) continue;
      this.#taken.delete(name);
      this.#answers.forget(id);
    }
    if (changes.length === 0 || !this.#leader.trusted()) return;
    const { bus } = this.#context.stores;
    const partitions = await bus.partitions(TOPICS.changes);
    const messages = changes.map((change) => {
      const key = changeKey(change.cluster, change.key);
      return { partition: partitionOf(key, partitions), key, value: encodeMessage(change) };
    });
    // What does not arrive is not seen to take effect, and is sent again.
    const failures = await this.#producer!.send([{ topic: TOPICS.changes, messages }]);
    for (const { code } of failures) this.#context.telemetry.count('move_failures_total', { code });
  }
}
