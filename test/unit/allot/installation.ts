import { startManager } from '../../../shard-manager/manager.ts';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import type { Delivery } from '../../../src/core/job.ts';
import { LIMITS } from '../../../src/core/limits.ts';
import { slotName } from '../../../src/core/topics.ts';
import type { Lease, LeaseStore } from '../../../src/ports/lease-store.ts';
import type { Stores } from '../../../src/ports/stores.ts';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import type { Service } from '../../../src/runtime/service.ts';

const DELIVERY: Delivery = 'at-least-once';

/** What stands between one process and the lease store. */
type Link = 'up' | 'refused' | 'silent';

export interface Manager {
  service: Service;
  /** `refused`: calls fail; `silent`: calls never answer, as after a crash. */
  cut(link: Link): void;
}

/** A worker as the manager sees one: it renews, opens shards of its slots and lets go when it is asked. */
export interface Worker {
  incarnation: string;
  rates: Record<string, number>;
  wheelLagMs: number;
  wheels: number;
  obeys: boolean;
  kill(): void;
  /** Cuts it off from the store alone, or not any more. */
  cut(link: Link): void;
  /** Tells that it leaves, lets go of everything and closes its session. */
  leave(): Promise<void>;
}

/**
 * An installation in memory on a clock moved by hand, with simulated workers. Each assignment is checked as it is made: the
 * last owner let go of the slot itself, or trusts its lease no more; what breaks this stands in `violations`.
 */
export function installation(slotsPerSet = 8) {
  const clock = manualClock(Date.UTC(2026, 0, 1));
  const stores = memoryStores(clock);
  const told: string[] = [];
  const fenced: string[] = [];
  const assigned: { atMs: number; slot: string; owner: string; epoch: number }[] = [];
  const violations: string[] = [];
  /** Until when a worker trusts its leases, by the clock of all. */
  const trustedUntilMs = new Map<string, number>();
  /** By slot: the last owner, and whether it let go itself. */
  const lastOwner = new Map<string, { owner: string; letGo: boolean }>();
  let laneDelayMs = 0;
  let latencyMs = 0;
  const telemetry = {
    ...silentTelemetry,
    event: (_: string, message: string) => void told.push(`${clock.monotonicMs()} ${message}`),
  };
  const bus: Pick<Stores['bus'], 'lane'> = {
    async lane(id) {
      await clock.sleep(laneDelayMs);
      fenced.push(id);
      return stores.bus.lane(id);
    },
  };

  function noteAssignment(slot: string, owner: string, epoch: number): void {
    const atMs = clock.monotonicMs();
    const last = lastOwner.get(slot);
    const trusts = last !== undefined && (trustedUntilMs.get(last.owner) ?? 0) > atMs;
    if (trusts && !last.letGo) violations.push(`${atMs} ${slot} to ${owner} while ${last.owner} trusts its lease`);
    assigned.push({ atMs, slot, owner, epoch });
    lastOwner.set(slot, { owner, letGo: false });
  }

  function linked(link: () => Link): LeaseStore {
    const guard = async <T>(call: () => Promise<T>): Promise<T> => {
      if (link() === 'refused') throw new Error('the store is away');
      if (link() === 'silent') await new Promise(() => {});
      if (latencyMs > 0) await clock.sleep(latencyMs / 2);
      const answer = await call();
      if (latencyMs > 0) await clock.sleep(latencyMs / 2);
      return answer;
    };
    const through = Object.entries(stores.leases).map(([name, method]) => [
      name,
      (...args: unknown[]) => guard(() => (method as (...a: unknown[]) => Promise<unknown>)(...args)),
    ]);
    const leases = Object.fromEntries(through) as LeaseStore;
    return {
      ...leases,
      async assign(lease, owner) {
        const given = await leases.assign(lease, owner);
        if (given) noteAssignment(slotName(lease.delivery, lease.slot), owner, lease.epoch + 1);
        return given;
      },
    };
  }

  let processes = 0;
  let outage: Link = 'up';
  async function manager(pid = ++processes): Promise<Manager> {
    let own: Link = 'up';
    const leases = linked(() => (own === 'up' ? outage : own));
    const service = startManager(
      {
        stores: { ...stores, bus: bus as Stores['bus'], leases },
        clock,
        telemetry,
        installation: { id: 'i', slotsPerSet, lanesPerSlot: 2 },
        deliveries: [DELIVERY],
      },
      { host: 'h', pid },
    );
    await service.start();
    return {
      service,
      cut(link) {
        own = link;
      },
    };
  }

  async function worker(incarnation: string, pid = ++processes): Promise<Worker> {
    let link: Link = 'up';
    const leases = linked(() => (link === 'up' ? outage : link));
    let living = true;
    const own: Worker = {
      incarnation,
      rates: {},
      wheelLagMs: 0,
      wheels: 1,
      obeys: true,
      kill() {
        living = false;
        trustedUntilMs.delete(incarnation);
      },
      cut(to) {
        link = to;
      },
      async leave() {
        own.wheels = 0;
        await renew();
        for (const lease of await leases.leases(incarnation)) await letGo(lease);
        if (await leases.endSession(incarnation, null)) own.kill();
      },
    };
    const report = () => ({ rates: own.rates, wheelLagMs: own.wheelLagMs, wheels: own.wheels });
    const renew = async (): Promise<void> => {
      const sentMs = clock.monotonicMs();
      if (await leases.renewSession(incarnation, report()))
        trustedUntilMs.set(incarnation, sentMs + LIMITS.sessionTrustMs);
      else own.kill();
    };
    const letGo = async (lease: Lease): Promise<void> => {
      const last = lastOwner.get(slotName(lease.delivery, lease.slot));
      if (last?.owner === incarnation) last.letGo = true;
      await leases.free(lease);
    };
    await leases.openSession({ incarnation, role: 'worker', host: 'h', pid, startedMs: 0, beat: 0, ...report() });
    const every = (ms: number, run: () => Promise<unknown>): void => {
      clock.after(ms, () => {
        if (!living) return;
        run().catch(() => {});
        every(ms, run);
      });
    };
    every(500, renew);
    every(50, async () => {
      // A leave that broke off is taken up again.
      if (own.wheels === 0) return own.leave();
      const mine = await leases.leases(incarnation);
      if (own.obeys) for (const lease of mine.filter(({ wanted }) => wanted === 'release')) await letGo(lease);
      for (const shard of await stores.shards.shards()) {
        const owned = mine.some(({ delivery, slot }) => delivery === shard.delivery && slot === shard.slot);
        if (shard.state === 'new' && owned) await stores.shards.setState(shard.id, 'new', 'open');
      }
    });
    return own;
  }

  const owners = async (): Promise<Record<string, string[]>> => {
    const by: Record<string, string[]> = {};
    for (const { owner, delivery, slot } of await stores.leases.leases()) {
      by[owner ?? 'nobody'] ??= [];
      by[owner ?? 'nobody']!.push(slotName(delivery, slot));
    }
    return by;
  };
  return {
    clock,
    stores,
    told,
    fenced,
    assigned,
    violations,
    manager,
    worker,
    owners,
    leases: (): Promise<Lease[]> => stores.leases.leases(),
    /** Number of slots by owner. */
    async shares(): Promise<Record<string, number>> {
      return Object.fromEntries(Object.entries(await owners()).map(([owner, slots]) => [owner, slots.length]));
    },
    reachable: () => outage === 'up',
    setOutage(link: Link) {
      outage = link;
    },
    /** Every call takes this long, there and back. */
    setLatency(ms: number) {
      latencyMs = ms;
    },
    setLaneDelay(ms: number) {
      laneDelayMs = ms;
    },
    /** Lets time pass in steps of 50 ms until something holds; answers the ms it took. Fails after `mostMs`. */
    async until(holds: () => boolean | Promise<boolean>, mostMs: number): Promise<number> {
      const startMs = clock.monotonicMs();
      while (!(await holds())) {
        if (clock.monotonicMs() - startMs >= mostMs)
          throw new Error(`not within ${mostMs} ms; told: ${told.join('; ')}`);
        await clock.advance(50);
      }
      return clock.monotonicMs() - startMs;
    },
  };
}
