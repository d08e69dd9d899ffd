import { freePlaces, planGrowth, planShrink, type SlotFacts, saturated } from '../../core/capacity.ts';
import type { Delivery } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import { slotName } from '../../core/topics.ts';
import type { Shard, ShardState } from '../../ports/shard-store.ts';
import { Closing } from './closing.ts';
import type { AllotContext } from './context.ts';
import type { Leader } from './leader.ts';
import type { LeaseRound } from './lease-round.ts';

/** Measured rates are stored this often, in ms; a change of saturation is stored at once. */
const STORE_RATES_MS = 5_000;
/**
 * Shards are looked at this often, in ms, while jobs are placed or shards change: a bulk of 50,000 jobs/s places 12,500
 * meanwhile, about what is always free. While nothing happens there, this often; who finds no place raises a signal.
 */
const BUSY_EVERY_MS = 250;
const CALM_EVERY_MS = 1_000;
/** Shrinking is looked at this often, in ms: it must not follow a short lull. */
const SHRINK_EVERY_MS = 60_000;
const STATES: readonly ShardState[] = ['new', 'open', 'draining', 'closed'];

/**
 * One round over shards: saturation, growth, draining, closing. Only the leader acts. The jobs of a draining shard are moved
 * to others (`move.ts`), and count here until nothing of them is left; a shard that holds none any more is closed.
 */
export class ShardRound {
  readonly #context: AllotContext;
  readonly #leader: Leader;
  readonly #leaseRound: LeaseRound;
  /** By set: jobs of the last round and when it was, for the rate of placing. */
  readonly #placed = new Map<Delivery, { jobs: number; atMs: number }>();
  readonly #closing: Closing;
  #ratesStoredMs = Number.NEGATIVE_INFINITY;
  #shrunkMs: number | null = null;

  constructor(context: AllotContext, leader: Leader, leaseRound: LeaseRound) {
    this.#context = context;
    this.#leader = leader;
    this.#leaseRound = leaseRound;
    this.#closing = new Closing(context, leader);
  }

  /** Answers how long to wait for the next round, in ms. */
  async run(): Promise<number> {
    if (!this.#leader.trusted()) return BUSY_EVERY_MS;
    const { stores, deliveries, clock } = this.#context;
    const shards = await stores.shards.shards();
    const now = clock.monotonicMs();
    const jobs = this.#jobsBySlot(shards);
    this.#leaseRound.learn(jobs, this.#storedRates(shards));
    await this.#storeLoads(shards, jobs, now);

    this.#shrunkMs ??= now;
    const shrinks = now - this.#shrunkMs >= SHRINK_EVERY_MS;
    if (shrinks) this.#shrunkMs = now;
    let nextId = 1 + shards.reduce((highest, shard) => Math.max(highest, shard.id), 0);
    let busy = shrinks || shards.some(({ state }) => state === 'new');
    for (const delivery of deliveries) {
      const own = shards.filter((shard) => shard.delivery === delivery);
      const placedPerSecond = this.#placing(delivery, own, now);
      const made = await this.#grow(delivery, own, placedPerSecond, nextId);
      nextId += made;
      busy ||= made > 0 || placedPerSecond > 0;
      if (shrinks) await this.#drain(own, placedPerSecond);
      this.#tell(delivery, own);
    }
    await this.#closing.run(shards, now);
    return busy ? BUSY_EVERY_MS : CALM_EVERY_MS;
  }

  #jobsBySlot(shards: readonly Shard[]): Map<string, number> {
    const jobs = new Map<string, number>();
    for (const shard of shards) {
      const name = slotName(shard.delivery, shard.slot);
      jobs.set(name, (jobs.get(name) ?? 0) + shard.jobs);
    }
    return jobs;
  }

  /** What an earlier leader measured: a new one starts from it. */
  #storedRates(shards: readonly Shard[]): Map<string, number> {
    const rates = new Map<string, number>();
    for (const shard of shards) {
      const name = slotName(shard.delivery, shard.slot);
      rates.set(name, (rates.get(name) ?? 0) + shard.triggersPerSecond);
    }
    return rates;
  }

  /**
   * Works out load and saturation of each shard, in place, and stores what has changed. Workers measure by slot; a shard's
   * part of its slot's rate goes by its jobs.
   */
  async #storeLoads(shards: Shard[], jobs: ReadonlyMap<string, number>, now: number): Promise<void> {
    const { laggingSlots, rates } = this.#leaseRound.picture;
    const storeRates = now - this.#ratesStoredMs >= STORE_RATES_MS;
    const changed: Shard[] = [];
    for (const shard of shards) {
      if (shard.state === 'closed') continue;
      const name = slotName(shard.delivery, shard.slot);
      const before = { rate: shard.triggersPerSecond, saturated: shard.saturated };
      shard.triggersPerSecond = (rates.of(name) * shard.jobs) / Math.max(1, jobs.get(name) ?? 0);
      shard.saturated = saturated(shard, laggingSlots.has(name));
      const moved = Math.abs(shard.triggersPerSecond - before.rate) > Math.max(1, before.rate * 0.1);
      if (shard.saturated !== before.saturated || (storeRates && moved)) changed.push(shard);
    }
    if (storeRates) this.#ratesStoredMs = now;
    if (changed.length === 0 || !this.#leader.trusted()) return;
    await this.#context.stores.shards.setLoad(
      changed.map(({ id, triggersPerSecond, saturated: full }) => ({ shard: id, triggersPerSecond, saturated: full })),
    );
  }

  /** Jobs placed per second since the last round; 0 in the first. */
  #placing(delivery: Delivery, shards: readonly Shard[], now: number): number {
    const jobs = shards.reduce((sum, shard) => sum + shard.jobs, 0);
    const before = this.#placed.get(delivery);
    this.#placed.set(delivery, { jobs, atMs: now });
    if (before === undefined || now <= before.atMs) return 0;
    return Math.max(0, ((jobs - before.jobs) * 1_000) / (now - before.atMs));
  }

  /** Makes and reopens shards; answers how many ids it used. */
  async #grow(delivery: Delivery, shards: Shard[], placedPerSecond: number, firstId: number): Promise<number> {
    const { stores, installation, telemetry } = this.#context;
    const { laggingSlots, rates } = this.#leaseRound.picture;
    const slots = Array.from({ length: installation.slotsPerSet }, (_, slot): SlotFacts => {
      const name = slotName(delivery, slot);
      return { slot, triggersPerSecond: rates.of(name), lagging: laggingSlots.has(name) };
    });
    const { create, reopen } = planGrowth(shards, slots, placedPerSecond);
    for (const id of reopen) if (this.#leader.trusted()) await stores.shards.setState(id, 'draining', 'open');
    if (create.length === 0 || !this.#leader.trusted()) return 0;
    const made = create.map(
      (slot, n): Shard => ({
        id: firstId + n,
        delivery,
        slot,
        state: 'new',
        jobs: 0,
        nextNumber: 1,
        triggersPerSecond: 0,
        saturated: false,
      }),
    );
    const count = await stores.shards.create(made);
    telemetry.count('shards_created_total', { delivery }, count);
    telemetry.event('info', 'shards were made', { delivery, count, shards: shards.length + count, placedPerSecond });
    return made.length;
  }

  async #drain(shards: readonly Shard[], placedPerSecond: number): Promise<void> {
    const { stores, installation, telemetry } = this.#context;
    for (const id of planShrink(shards, installation.slotsPerSet, placedPerSecond)) {
      if (!this.#leader.trusted() || !(await stores.shards.setState(id, 'open', 'draining'))) continue;
      telemetry.event('info', 'a shard takes no more jobs: far too many are nearly empty', { shard: id });
    }
  }

  #tell(delivery: Delivery, shards: readonly Shard[]): void {
    const { telemetry } = this.#context;
    for (const state of STATES) {
      telemetry.gauge('shards', shards.filter((shard) => shard.state === state).length, { delivery, state });
    }
    const open = shards.filter((shard) => shard.state === 'open' && !shard.saturated);
    telemetry.gauge('shard_places', open.length * LIMITS.shardJobs, { delivery });
    telemetry.gauge('shard_places_free', freePlaces(open), { delivery });
  }
}
