import { type AllotPlan, type AllotSlot, type AllotWorker, allot, slotWeight } from '../../core/allotment.ts';
import { lagging } from '../../core/capacity.ts';
import { slotName } from '../../core/topics.ts';
import type { Lease, Session } from '../../ports/lease-store.ts';
import type { AllotContext } from './context.ts';
import { fenceSlots } from './fence.ts';
import type { Leader } from './leader.ts';
import { SessionWatch } from './session-watch.ts';
import { sideBySide } from './side-by-side.ts';
import { SlotRates } from './slot-rates.ts';

/**
 * An imbalance that lasts this long, in ms, is worth moving slots; a worker without any slot is helped at once. Well above
 * the smoothing of rates, so that the trace of a short swing is gone by then.
 */
const UNBALANCED_MS = 20_000;
/** A release that its owner has not carried out after this long, in ms, is taken back ... */
const RELEASE_HUNG_MS = 10_000;
/** ... and the slot is left in peace for this long, in ms. */
const PINNED_MS = 60_000;
/** Sessions are looked at this often, in ms: a death is seen at most two looks late, and what may be one closely. */
const LOOK_EVERY_MS = 300;
const FOLLOWER_LOOKS_EVERY_MS = 500;
const LOOK_CLOSER_MS = 100;
/** Leases are read with each look while one of them is free or asked for, else when a signal says so and this often, in ms. */
const LEASES_EVERY_MS = 1_000;
/** Fencing is waited for at most this long, in ms: where the bus is away, nobody can publish, and the new owner fences too. */
const FENCE_MS = 500;

/** What the last round saw, for the rounds of shards. */
export interface LeasePicture {
  /** Names of slots whose owner's wheels lag. */
  laggingSlots: ReadonlySet<string>;
  rates: SlotRates;
}

/**
 * One round over sessions and leases. Every manager looks, so that a new leader knows at once what stands still; only the
 * leader acts: it declares deaths, fences and frees the slots of the dead, gives free slots away and asks for moves.
 */
export class LeaseRound {
  readonly #context: AllotContext;
  readonly #leader: Leader;
  readonly #watch = new SessionWatch();
  readonly #rates = new SlotRates();
  /** All leases as they were read last, and when that was begun, monotonic ms. */
  #leases: Lease[] = [];
  #leasesReadMs = Number.NEGATIVE_INFINITY;
  #lagging = new Set<string>();
  #laggingSlots = new Set<string>();
  /** Jobs by slot name, as the rounds of shards last saw them. */
  #jobs: ReadonlyMap<string, number> = new Map();
  /** Monotonic time of the first round of an imbalance, and whether its moves have begun. */
  #unbalanced: { sinceMs: number; moving: boolean } | null = null;
  /** By slot name: when its owner was first seen asked to let go. */
  #askedMs = new Map<string, number>();
  #pinnedUntilMs = new Map<string, number>();

  constructor(context: AllotContext, leader: Leader) {
    this.#context = context;
    this.#leader = leader;
  }

  get picture(): LeasePicture {
    return { laggingSlots: this.#laggingSlots, rates: this.#rates };
  }

  /** Jobs and stored rates by slot name, from the shards. */
  learn(jobs: ReadonlyMap<string, number>, storedRates: ReadonlyMap<string, number>): void {
    this.#jobs = jobs;
    this.#rates.seed(storedRates);
  }

  /** The leases are to be read with the next round. */
  leasesChanged(): void {
    this.#leasesReadMs = Number.NEGATIVE_INFINITY;
  }

  /** `incarnation` is the manager's own, which it never declares dead. Answers how long to wait for the next round, in ms. */
  async run(incarnation: string): Promise<number> {
    await this.#look(incarnation);
    if (this.#watch.suspects) return LOOK_CLOSER_MS;
    return this.#leader.trusted() ? LOOK_EVERY_MS : FOLLOWER_LOOKS_EVERY_MS;
  }

  async #look(incarnation: string): Promise<void> {
    const store = this.#context.stores.leases;
    // Leases first: an owner in them was alive before, so one that is missing from the sessions read after has ended.
    let leases = this.#leader.trusted() ? await this.#known() : [];
    const { sessions, dead } = await this.#sessions(incarnation);
    if (!this.#leader.trusted()) return;

    const ended = await this.#declare(dead);
    const living = sessions.filter((session) => !ended.has(session.incarnation));
    const known = new Set(living.map((session) => session.incarnation));
    const orphans = leases.filter((lease) => lease.owner !== null && !known.has(lease.owner));
    if (orphans.length > 0) {
      await this.#fence(orphans);
      await sideBySide(orphans, async (lease) => void (await this.#write(() => store.free(lease))));
      leases = await this.#readLeases();
    }
    const doubtful = new Set(dead.map((session) => session.incarnation));
    const workers = living.filter((one) => one.role === 'worker' && one.wheels > 0 && !doubtful.has(one.incarnation));
    await this.#allot(workers, leases);
    this.#tell(living, leases);
  }

  /** The leases as they were read last, or read now where they may have changed. */
  async #known(): Promise<readonly Lease[]> {
    const nowMs = this.#context.clock.monotonicMs();
    const settled = this.#leases.every(({ owner, wanted }) => owner !== null && wanted === 'keep');
    if (settled && nowMs - this.#leasesReadMs < LEASES_EVERY_MS) return this.#leases;
    return await this.#readLeases();
  }

  async #readLeases(): Promise<readonly Lease[]> {
    const { deliveries, installation } = this.#context;
    const store = this.#context.stores.leases;
    this.#leasesReadMs = this.#context.clock.monotonicMs();
    try {
      this.#leases = await store.leases();
      const wanted = deliveries.flatMap((delivery) =>
        Array.from({ length: installation.slotsPerSet }, (_, slot) => ({ delivery, slot })),
      );
      const there = new Set(this.#leases.map((lease) => slotName(lease.delivery, lease.slot)));
      const missing = wanted.filter(({ delivery, slot }) => !there.has(slotName(delivery, slot)));
      if (missing.length === 0 || !this.#leader.trusted()) return this.#leases;
      await store.createSlots(missing);
      this.#leases = await store.leases();
      return this.#leases;
    } catch (error) {
      this.leasesChanged();
      this.#watch.failed();
      throw error;
    }
  }

  async #sessions(incarnation: string): Promise<{ sessions: Session[]; dead: Session[] }> {
    const { stores, clock, telemetry } = this.#context;
    const startMs = clock.monotonicMs();
    let sessions: Session[];
    try {
      sessions = await stores.leases.sessions();
    } catch (error) {
      this.#watch.failed();
      throw error;
    }
    const endMs = clock.monotonicMs();
    const { dead, withheld } = this.#watch.observe(sessions, startMs, endMs);
    if (withheld > 0) {
      telemetry.count('deaths_withheld_total');
      telemetry.event(
        'error',
        'too many sessions stand still at once: the store is suspected, nobody is declared dead',
        {
          processes: withheld,
          sessions: sessions.length,
        },
      );
    }
    this.#rates.observe(sessions, endMs);
    const lag = sessions.filter((one) => lagging(one.wheelLagMs, this.#lagging.has(one.incarnation)));
    this.#lagging = new Set(lag.map((one) => one.incarnation));
    return { sessions, dead: dead.filter((one) => one.incarnation !== incarnation) };
  }

  /** Ends the sessions whose beat is still the one that stood still; answers those that it ended. */
  async #declare(dead: readonly Session[]): Promise<Set<string>> {
    const { stores, telemetry } = this.#context;
    const ended = new Set<string>();
    for (const { incarnation, beat, role, host, pid } of dead) {
      if (!(await this.#write(() => stores.leases.endSession(incarnation, beat)))) continue;
      ended.add(incarnation);
      telemetry.count('sessions_died_total', { role });
      telemetry.event('warn', 'a session was declared dead', { incarnation, role, host, pid });
    }
    return ended;
  }

  async #fence(orphans: readonly Lease[]): Promise<void> {
    const { stores, installation, clock, telemetry } = this.#context;
    const over = new AbortController();
    const slots = orphans.map((lease) => slotName(lease.delivery, lease.slot));
    const failed = (reason: string): void => {
      telemetry.count('fence_failures_total', {}, orphans.length);
      telemetry.event('warn', 'slots of a dead owner were not fenced in time; their next owner does it', {
        slots,
        reason,
      });
    };
    const fenced = fenceSlots(stores.bus, installation, orphans, over.signal).then(
      () => over.abort(),
      (error: unknown) => {
        if (!over.signal.aborted) failed(String(error));
        over.abort();
      },
    );
    await Promise.race([fenced, clock.sleep(FENCE_MS, over.signal)]);
    if (!over.signal.aborted) failed(`not done after ${FENCE_MS} ms`);
    over.abort();
  }

  async #allot(workers: readonly Session[], leases: readonly Lease[]): Promise<void> {
    const now = this.#context.clock.monotonicMs();
    const byName = new Map(leases.map((lease) => [slotName(lease.delivery, lease.slot), lease]));
    const hung = this.#hungReleases(byName, now);
    const plan = allot(
      workers.map((one): AllotWorker => ({ id: one.incarnation, capacity: one.wheels, lagging: this.#isLagging(one) })),
      [...byName].map(([name, lease]) => this.#slot(name, lease, now)),
    );
    this.#laggingSlots = new Set(
      [...byName].filter(([, { owner }]) => owner !== null && this.#lagging.has(owner)).map(([name]) => name),
    );
    const { stores, telemetry } = this.#context;
    await sideBySide(plan.assign, async ({ slot, worker }) => {
      if (!(await this.#write(() => stores.leases.assign(byName.get(slot)!, worker)))) return;
      telemetry.count('slots_assigned_total');
      telemetry.event('info', 'a slot was given to a worker', { slot, worker });
    });
    for (const slot of new Set([...plan.keep, ...hung])) await this.#ask(slot, byName.get(slot)!, 'keep');
    if (this.#mayMove(plan, workers, leases, now)) {
      for (const slot of plan.release) await this.#ask(slot, byName.get(slot)!, 'release');
    }
  }

  #slot(name: string, lease: Lease, now: number): AllotSlot {
    return {
      id: name,
      owner: lease.owner,
      releasing: lease.owner !== null && lease.wanted === 'release',
      weight: slotWeight(this.#rates.of(name), this.#jobs.get(name) ?? 0),
      pinned: (this.#pinnedUntilMs.get(name) ?? 0) > now,
    };
  }

  /** Whether moves are worth it: once begun they go on until balance; they begin for an idle worker or what lasts. */
  #mayMove(plan: AllotPlan, workers: readonly Session[], leases: readonly Lease[], now: number): boolean {
    if (plan.release.length === 0) {
      // While slots are under way there is nothing to ask for, and yet the moves have not come to their end.
      if (!leases.some((lease) => lease.owner === null || lease.wanted === 'release')) this.#unbalanced = null;
      return false;
    }
    this.#unbalanced ??= { sinceMs: now, moving: false };
    const owners = new Set([...leases.map((lease) => lease.owner), ...plan.assign.map(({ worker }) => worker)]);
    const idle = workers.some((one) => !owners.has(one.incarnation));
    if (idle || now - this.#unbalanced.sinceMs >= UNBALANCED_MS) this.#unbalanced.moving = true;
    return this.#unbalanced.moving;
  }

  /** Slots whose owners were asked long ago and have not let go: they are asked to keep them, and pinned. */
  #hungReleases(byName: ReadonlyMap<string, Lease>, now: number): string[] {
    const asked = new Map<string, number>();
    const hung: string[] = [];
    for (const [name, lease] of byName) {
      if (lease.owner === null || lease.wanted !== 'release') continue;
      const sinceMs = this.#askedMs.get(name) ?? now;
      asked.set(name, sinceMs);
      if (now - sinceMs < RELEASE_HUNG_MS) continue;
      hung.push(name);
      this.#pinnedUntilMs.set(name, now + PINNED_MS);
      this.#context.telemetry.event('warn', 'a release hung and is taken back', { slot: name, owner: lease.owner });
    }
    this.#askedMs = asked;
    return hung;
  }

  async #ask(slot: string, lease: Lease, wanted: 'keep' | 'release'): Promise<void> {
    const { stores, telemetry } = this.#context;
    if (!(await this.#write(() => stores.leases.ask(lease, wanted)))) return;
    telemetry.count('slots_asked_total', { wanted });
    telemetry.event('info', 'an owner was asked for a slot', { slot, owner: lease.owner, wanted });
  }

  /** A conditional write, if this manager still leads; false: it does not, or somebody was first. */
  async #write(write: () => Promise<boolean>): Promise<boolean> {
    if (!this.#leader.trusted() || !(await write())) return false;
    this.leasesChanged();
    return true;
  }

  #isLagging(session: Session): boolean {
    return this.#lagging.has(session.incarnation);
  }

  #tell(living: readonly Session[], leases: readonly Lease[]): void {
    const { telemetry, deliveries } = this.#context;
    for (const role of ['worker', 'manager', 'api'] as const) {
      telemetry.gauge('sessions', living.filter((one) => one.role === role).length, { role });
    }
    for (const delivery of deliveries) {
      const own = leases.filter((lease) => lease.delivery === delivery);
      const free = own.filter((lease) => lease.owner === null).length;
      const releasing = own.filter((lease) => lease.owner !== null && lease.wanted === 'release').length;
      telemetry.gauge('slots', free, { delivery, state: 'free' });
      telemetry.gauge('slots', releasing, { delivery, state: 'releasing' });
      telemetry.gauge('slots', own.length - free - releasing, { delivery, state: 'owned' });
    }
  }
}
