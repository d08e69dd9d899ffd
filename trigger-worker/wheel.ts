import { LIMITS } from '../src/core/limits.ts';
import { slotName } from '../src/core/topics.ts';
import { CommitBudget } from '../src/engine/firing/commit-budget.ts';
import { SlotRunner } from '../src/engine/firing/slot.ts';
import type { BusProducer } from '../src/ports/bus.ts';
import type { Installation } from '../src/ports/catalog-store.ts';
import type { Clock } from '../src/ports/clock.ts';
import type { Lease } from '../src/ports/lease-store.ts';
import type { Stores } from '../src/ports/stores.ts';
import type { Telemetry } from '../src/ports/telemetry.ts';
import { collectGarbage } from '../src/runtime/garbage.ts';
import { loop } from '../src/runtime/service.ts';
import { SlotSteps } from './slot-steps.ts';

/**
 * The firing loop waits twice as long as the bus takes to answer, between these two, in ms. What comes due within one wait goes
 * in one request; a request costs worker and broker together about 0.3 ms, so a machine that is full (and answers late) gets
 * fewer and larger ones, while one that is quiet keeps its precision. (Once as long was, (m) cluster demo, 670 requests/s
 * in place of 400, a busier broker and p99 84 to 120 ms.)
 */
const ROUND_ANSWERS = 2;
const ROUND_MIN_MS = 2;
const ROUND_MAX_MS = 25;
/** Wait while nothing is due, in ms: as fine as anything else is timed that a slot does. */
const IDLE_WAIT_MS = 50;
/**
 * A scan that took up many jobs at once leaves garbage behind, which V8 would collect while they fire: (m) with a million jobs due
 * at one instant for 0.7 s, and the last one was out after 1.5 to 1.9 s, now 1.1. So it is collected when their number has grown by
 * so many, has stood still for so long, and nothing is due for so long, in ms. Where jobs fire all the time that never happens.
 */
const COLLECT_ENTRIES = 100_000;
const COLLECT_STILL_MS = 500;
const COLLECT_AHEAD_MS = 2_000;
/** The list of shards is read when a signal says that it may have changed, and this often, in ms. */
const SHARDS_EVERY_MS = 5_000;

export interface WheelContext {
  stores: Stores;
  clock: Clock;
  telemetry: Telemetry;
  installation: Pick<Installation, 'id' | 'slotsPerSet'> & Partial<Pick<Installation, 'lanesPerSlot'>>;
  misfireAfterMs: number;
  /** Transactions per second that the wheel may begin for exactly-once slots. */
  commitsPerSecond: number;
  /** Whether the session is trusted now. */
  trusted(): boolean;
}

/** What a wheel tells of one of its slots. */
export interface SlotReport {
  /** As `slotName`. */
  name: string;
  epoch: number;
  phase: string;
  published: number;
}

/** One wheel: the slots of one thread. In the worker's own thread it is this object, else a proxy of one. */
export interface WheelHost {
  /** Takes a slot over and fires it, until it is drained, dropped or lost. Does not wait. */
  adopt(lease: Lease, incarnation: string): void;
  /** Graceful end of a slot; ends when nothing of it is on the way. An error has been told, and the slot is closed. */
  drain(slot: string): Promise<void>;
  /** Ends a slot (absent: all) at once. */
  drop(reason: string, slot?: string): void;
  report(): { slots: SlotReport[]; lagMs: number };
  close(): Promise<void>;
}

interface Held {
  runner: SlotRunner;
  epoch: number;
  steps: SlotSteps;
  /** The takeover, while it runs. */
  adopting: Promise<void>;
}

export class LocalWheel implements WheelHost {
  private readonly context: WheelContext;
  private readonly producer: BusProducer;
  private readonly held = new Map<string, Held>();
  private readonly budget: CommitBudget;
  private readonly firing: ReturnType<typeof loop>;
  /** Looks for shards that were made while their slots are held, for all slots at once. */
  private readonly shards: ReturnType<typeof loop>;
  private unwatch = (): void => {};
  private readonly ending = new Set<Promise<void>>();
  /** When the next round begins, monotonic ms. */
  private nextRoundMs = 0;
  /** Jobs in memory in the last round, since when they were as many (monotonic ms), and how many there were at the last collection. */
  private readonly jobs = { seen: 0, sinceMs: 0, collected: 0 };

  private constructor(context: WheelContext, producer: BusProducer) {
    this.context = context;
    this.producer = producer;
    this.budget = new CommitBudget(context.commitsPerSecond);
    const { clock, telemetry } = context;
    this.firing = loop({ name: 'firing', clock, telemetry, round: async () => this.fire() });
    this.shards = loop({ name: 'wheel-shards', clock, telemetry, round: () => this.syncShards() });
  }

  static async open(context: WheelContext): Promise<LocalWheel> {
    const wheel = new LocalWheel(context, await context.stores.bus.producer());
    await wheel.firing.start();
    await wheel.shards.start();
    wheel.unwatch = context.stores.signals.watch('shards', () => wheel.shards.wake());
    return wheel;
  }

  adopt(lease: Lease, incarnation: string): void {
    const { stores, clock, telemetry, installation, misfireAfterMs } = this.context;
    const { delivery, slot, epoch } = lease;
    const name = slotName(delivery, slot);
    if (this.held.has(name)) return;
    const runner: SlotRunner = new SlotRunner({
      stores,
      clock,
      telemetry,
      installation,
      delivery,
      slot,
      epoch,
      incarnation,
      producer: this.producer,
      budget: this.budget,
      misfireAfterMs,
      trusted: () => this.context.trusted() || clock.monotonicMs() - runner.provenMs < LIMITS.sessionTrustMs,
      wake: () => this.wake(),
      lost: () => this.release(name),
    });
    const steps = new SlotSteps(runner, { clock, telemetry, wake: () => this.wake() });
    const held: Held = { runner, epoch, steps, adopting: Promise.resolve() };
    this.held.set(name, held);
    held.adopting = this.takeOver(name, held);
  }

  private async takeOver(name: string, held: Held): Promise<void> {
    try {
      await held.runner.adopt();
      if (held.runner.phase !== 'running') return;
      await held.steps.start();
      this.wake();
    } catch (error) {
      this.context.telemetry.count('takeovers_failed_total', { slot: name });
      this.context.telemetry.event('error', 'a slot was not taken over', { slot: name, error: String(error) });
      held.runner.drop('the takeover failed');
    }
  }

  /** Forgets a lost slot: the worker sees that it is gone and, if the lease is still its own, gives it back to adopt. */
  private release(name: string): void {
    const held = this.held.get(name);
    if (held === undefined) return;
    this.held.delete(name);
    const ending = this.end(held).finally(() => this.ending.delete(ending));
    this.ending.add(ending);
  }

  private async end(held: Held): Promise<void> {
    await held.adopting;
    await held.runner.close();
    await held.steps.stop();
  }

  async drain(name: string): Promise<void> {
    const held = this.held.get(name);
    if (held === undefined) return;
    try {
      await held.adopting;
      await held.runner.drain();
    } catch (error) {
      this.context.telemetry.event('error', 'a slot was given up without a clean end', {
        slot: name,
        error: String(error),
      });
    }
    await held.steps.stop();
    if (this.held.get(name) === held) this.held.delete(name);
  }

  drop(reason: string, slot?: string): void {
    for (const [name, { runner }] of [...this.held]) if (slot === undefined || slot === name) runner.drop(reason);
  }

  report(): { slots: SlotReport[]; lagMs: number } {
    const nowMs = this.context.clock.wallMs();
    const slots = [...this.held].map(([name, { runner, epoch }]) => {
      return { name, epoch, phase: runner.phase, published: runner.published };
    });
    const lags = [...this.held.values()].map(({ runner }) => runner.lagMs(nowMs));
    return { slots, lagMs: Math.max(0, ...lags) };
  }

  async close(): Promise<void> {
    this.unwatch();
    await this.shards.stop();
    await Promise.all([...this.held.keys()].map((name) => this.drain(name)));
    await Promise.all(this.ending);
    await this.firing.stop();
    await this.producer.close();
  }

  /** There may be something to do sooner than was known: a long wait ends, one between two rounds goes on. */
  private wake(): void {
    if (this.nextRoundMs - this.context.clock.monotonicMs() > this.roundMs()) this.firing.wake();
  }

  private roundMs(): number {
    let answerMs = 0;
    for (const { runner } of this.held.values()) answerMs = Math.max(answerMs, runner.answerMs);
    return Math.min(ROUND_MAX_MS, Math.max(ROUND_MIN_MS, ROUND_ANSWERS * answerMs));
  }

  /** Takes up and opens what was made since; a slot on which that fails is tried again, and holds up no other. */
  private async syncShards(): Promise<number> {
    const running = [...this.held.values()].filter(({ runner }) => runner.phase === 'running');
    if (running.length === 0) return SHARDS_EVERY_MS;
    const { stores, clock } = this.context;
    const shards = await stores.shards.shards();
    const synced = await Promise.allSettled(running.map(({ runner }) => runner.syncShards(clock.wallMs(), shards)));
    for (const one of synced) if (one.status === 'rejected') throw one.reason;
    if (synced.some((one) => one.status === 'fulfilled' && one.value > 0)) this.wake();
    return SHARDS_EVERY_MS;
  }

  /** One round over all slots; answers how long to wait for the next one. */
  private fire(): number {
    const { clock } = this.context;
    const nowMs = clock.wallMs();
    let dueInMs = Number.POSITIVE_INFINITY;
    // Whoever has waited longest is the first: where the budget is short, each gets its turn.
    const all = [...this.held.values()].sort((a, b) => a.runner.begunMs - b.runner.begunMs);
    for (const { runner, steps } of all) {
      if (runner.phase !== 'running') continue;
      runner.tick(nowMs);
      dueInMs = Math.min(dueInMs, runner.nextDueMs - nowMs);
      steps.begin();
    }
    this.collectAhead(dueInMs);
    const waitMs = Math.max(this.roundMs(), Math.min(IDLE_WAIT_MS, dueInMs));
    this.nextRoundMs = clock.monotonicMs() + waitMs;
    return waitMs;
  }

  private collectAhead(dueInMs: number): void {
    const { jobs } = this;
    const nowMs = this.context.clock.monotonicMs();
    let entries = 0;
    for (const { runner } of this.held.values()) entries += runner.entries;
    if (entries !== jobs.seen) {
      jobs.seen = entries;
      jobs.sinceMs = nowMs;
      jobs.collected = Math.min(jobs.collected, entries);
    }
    const grown = entries - jobs.collected >= COLLECT_ENTRIES && nowMs - jobs.sinceMs >= COLLECT_STILL_MS;
    if (!grown || dueInMs < COLLECT_AHEAD_MS) return;
    jobs.collected = entries;
    collectGarbage();
  }
}
