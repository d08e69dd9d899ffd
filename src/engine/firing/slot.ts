import type { Shard } from '../../ports/shard-store.ts';
import { rebuild } from '../rebuild/rebuild.ts';
import { Reconciler } from '../rebuild/reconcile.ts';
import { flushWriteBacks } from './advance.ts';
import { flushAnswers } from './answers.ts';
import { lookForAway } from './away.ts';
import { collect } from './collect.ts';
import { deliver, mayDeliver } from './deliver.ts';
import { readFast } from './fast-path.ts';
import { recordFailed, recordFinished } from './finish.ts';
import { reportGauges } from './gauges.ts';
import { commitProgress } from './progress.ts';
import { scan, syncShards } from './scan.ts';
import { type Phase, type SlotOptions, SlotState } from './slot-state.ts';
import { adopt } from './takeover.ts';

/**
 * The firing of one slot under one epoch, as steps that loops (or a test with a manual clock) call. A step is not called
 * again before it has ended; different steps may run at the same time.
 *
 * Phases, and who changes them:
 * - `new`: nothing was done. `adopt` begins.
 * - `adopting`: the lane is ours, the former owner is fenced, nothing is published and T does not move. `adopt` ends it,
 *   when progress, cursors, the first scan of every shard and the fast path from O are in.
 * - `running`: `tick` publishes what is due while the worker trusts its lease; all other steps do their part.
 * - `draining`: entered by `drain`: nothing new is published; what is on the way is waited for, progress and scores are
 *   written. It ends in `closed`.
 * - `lost`: a newer epoch or another holder of the lane was seen, or the worker dropped the slot. All entries are gone at
 *   once; no step does anything any more. The way back is a new runner that adopts with the epoch of its lease.
 * - `closed`: lane and reader are closed.
 */
export class SlotRunner {
  private readonly slot: SlotState;
  private readonly sending = new Set<Promise<void>>();
  private reconciler: Reconciler | null = null;

  constructor(options: SlotOptions) {
    this.slot = new SlotState(options);
  }

  get phase(): Phase {
    return this.slot.phase;
  }

  get name(): string {
    return this.slot.name;
  }

  /** Triggers acknowledged since the takeover. */
  get published(): number {
    return this.slot.published;
  }

  /**
   * How long the bus takes to answer a batch, smoothed over the last few, in ms; 0 for an exactly-once slot, which has one
   * batch on the way and is paced by that.
   */
  get answerMs(): number {
    return this.slot.options.delivery === 'exactly-once' ? 0 : this.slot.answerMs;
  }

  /** When the last batch was begun, monotonic ms. */
  get begunMs(): number {
    return this.slot.begunMs;
  }

  /** Committed (T, O). */
  get watermark(): { t: number; o: number } {
    const { t, o } = this.slot.durable;
    return { t, o };
  }

  /** Monotonic time, in ms, at which the lane was certainly still this owner's: a commit that was begun then succeeded. */
  get provenMs(): number {
    return this.slot.provenMs;
  }

  /** Jobs in memory. */
  get entries(): number {
    return this.slot.entries.size;
  }

  /** When there may be something to publish next, wall time in ms; Infinity: not before another step changes something. */
  get nextDueMs(): number {
    const { slot } = this;
    if (slot.ready.length > 0) return slot.wheel.timeMs;
    return slot.wheel.nextDueMs();
  }

  /** How far the wheel is behind what is due, in ms. */
  lagMs(nowMs: number): number {
    return this.slot.running ? Math.max(0, nowMs - Math.max(this.slot.wheel.timeMs, this.nextDueMs)) : 0;
  }

  /** Takes the slot over; see `takeover.ts`. Ends in `running` or `lost`; after an error the runner is to be closed. */
  async adopt(): Promise<void> {
    await adopt(this.slot);
    await this.syncShards(this.slot.options.clock.wallMs());
  }

  /** Claims, scans and opens shards that were made since, by the list of all as it is (absent: read now). Answers how many. */
  async syncShards(nowMs: number, shards?: readonly Shard[]): Promise<number> {
    const { slot } = this;
    if (slot.phase !== 'running') return 0;
    const { taken, unopened } = await syncShards(slot, nowMs, shards);
    if (unopened.size === 0) return taken;
    // A new shard is empty: making it whole is one question to each store.
    while (await rebuild(slot, ({ id }) => unopened.has(id)));
    return taken + (await syncShards(slot, nowMs)).taken;
  }

  /** Compares some jobs with what the trigger store has; answers whether there is more to be done at once. */
  async reconcile(): Promise<boolean> {
    if (this.slot.phase !== 'running') return false;
    this.reconciler ??= new Reconciler(this.slot);
    return await this.reconciler.step();
  }

  /** Rebuilds one shard that the trigger store has lost; answers whether there is one more. */
  async rebuild(): Promise<boolean> {
    return this.slot.phase === 'running' && (await rebuild(this.slot));
  }

  /** Scans the shards whose horizon has come near. Answers how many. */
  async scan(nowMs: number): Promise<number> {
    return this.slot.phase === 'running' ? await scan(this.slot, nowMs) : 0;
  }

  /** Reads and applies changes, waiting up to `maxWaitMs` for the first. Answers how many. */
  async readFast(maxWaitMs = 0): Promise<number> {
    if (this.slot.phase !== 'running') return 0;
    const read = await readFast(this.slot, maxWaitMs);
    await this.flushAnswers();
    return read;
  }

  /**
   * Publishes what is due, as far as batches may be on the way; ends when they are sent, not when they are acknowledged.
   * Answers how many triggers were sent.
   */
  tick(nowMs: number): number {
    const { slot } = this;
    let triggers = 0;
    while (slot.phase === 'running' && slot.options.trusted() && mayDeliver(slot, nowMs)) {
      const batch = collect(slot, nowMs);
      if (batch === null) break;
      triggers += batch.count;
      const sending = deliver(slot, batch)
        .catch((error: unknown) => slot.lose(`a fault: ${String(error)}`))
        .then(async () => {
          slot.options.wake?.();
          // A change that waited for these triggers may have been answered with them.
          await this.flushAnswers();
        })
        .finally(() => this.sending.delete(sending));
      this.sending.add(sending);
    }
    return triggers;
  }

  /** Ends when everything that `tick` has sent is acknowledged or has failed. */
  async settled(): Promise<void> {
    while (this.sending.size > 0) await Promise.all(this.sending);
    await this.slot.committing;
  }

  async flushWriteBacks(): Promise<number> {
    return this.slot.running ? await flushWriteBacks(this.slot) : 0;
  }

  async commitProgress(atOnce = false): Promise<boolean> {
    return await commitProgress(this.slot, atOnce);
  }

  /** Failed jobs into the error state, finished ones into `finished`. Answers how many were finished. */
  async recordFinished(): Promise<number> {
    if (this.slot.phase !== 'running') return 0;
    await recordFailed(this.slot);
    return await recordFinished(this.slot);
  }

  async checkTopics(): Promise<void> {
    if (this.slot.phase === 'running') await lookForAway(this.slot);
  }

  async flushAnswers(): Promise<void> {
    try {
      await flushAnswers(this.slot);
    } catch (error) {
      this.slot.count('answers_dropped_total');
      this.slot.event('warn', 'answers to changes were not sent', { error: String(error) });
    }
  }

  reportGauges(nowMs: number): void {
    reportGauges(this.slot, this.lagMs(nowMs));
  }

  /**
   * Graceful end: stops firing at once, waits for what is on the way, commits the last progress and writes the scores. It
   * throws when that was not possible; the runner is closed in any case.
   */
  async drain(): Promise<void> {
    const { slot } = this;
    if (slot.phase === 'running') {
      slot.phase = 'draining';
      try {
        // A loop may have begun a commit of its own meanwhile.
        do await this.settled();
        while (!(await commitProgress(slot, true)) && slot.committing !== null);
        await this.flushAnswers();
        await flushWriteBacks(slot);
      } finally {
        await this.close();
      }
      return;
    }
    await this.close();
  }

  /** Drops everything at once, without waiting for anything that is on the way. */
  drop(reason: string): void {
    this.slot.lose(reason);
  }

  /** Closes lane and reader. A running slot is dropped. */
  async close(): Promise<void> {
    const { slot } = this;
    if (slot.phase === 'closed') return;
    if (slot.phase !== 'lost') {
      slot.phase = 'closed';
      slot.forget();
    }
    const { lanes, reader } = slot;
    slot.lanes = [];
    slot.reader = null;
    await Promise.allSettled([reader?.close(), ...lanes.map((lane) => lane.close())]);
    slot.phase = 'closed';
  }
}
