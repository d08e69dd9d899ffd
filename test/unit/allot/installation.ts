import { startManager } from '../../../shard-manager/manager.ts';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import type { Delivery } from '../../../src/core/job.ts';
import { type Lease, type LeaseStore, slotName } from '../../../src/ports/lease-store.ts';
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
  /** Tells that it leaves, lets go of everything and closes its session. */
  leave(): Promise<void>;
}

/**
 * An installation in memory on a clock moved by hand, with simulated workers. Every change of a lease is checked as it is
 * made: a slot that is given away was free, and its lanes were fenced since its last owner died.
 */
export function installation(slotsPerSet = 8) {
  const clock = manualClock(Date.UTC(2026, 0, 1));
  const stores = memoryStores(clock);
  const told: string[] = [];
  const fenced: string[] = [];
  const assigned: { atMs: number; slot: string; owner: string; epoch: number }[] = [];
  let laneDelayMs = 0;
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

  function linked(link: () => Link): LeaseStore {
    const guard = async <T>(call: () => Promise<T>): Promise<T> => {
      if (link() === 'refused') throw new Error('the store is away');
      if (link() === 'silent') await new Promise(() => {});
      return call();
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
        const slot = slotName(lease.delivery, lease.slot);
        if (given) assigned.push({ atMs: clock.monotonicMs(), slot, owner, epoch: lease.epoch + 1 });
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
    const leases = linked(() => outage);
    let living = true;
    const own: Worker = {
      incarnation,
      rates: {},
      wheelLagMs: 0,
      wheels: 1,
      obeys: true,
      kill() {
        living = false;
      },
      async leave() {
        own.wheels = 0;
        await renew();
        for (const lease of await leases.leases(incarnation)) await leases.free(lease);
        living = false;
        await leases.endSession(incarnation, null);
      },
    };
    const report = () => ({ rates: own.rates, wheelLagMs: own.wheelLagMs, wheels: own.wheels });
    const renew = (): Promise<boolean> => leases.renewSession(incarnation, report());
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
      const mine = await leases.leases(incarnation);
      if (own.obeys) for (const lease of mine.filter(({ wanted }) => wanted === 'release')) await leases.free(lease);
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
    manager,
    worker,
    owners,
    leases: (): Promise<Lease[]> => stores.leases.leases(),
    /** Number of slots by owner. */
    async shares(): Promise<Record<string, number>> {
      return Object.fromEntries(Object.entries(await owners()).map(([owner, slots]) => [owner, slots.length]));
    },
    setOutage(link: Link) {
      outage = link;
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
