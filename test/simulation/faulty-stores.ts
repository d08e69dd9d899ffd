import { signalling } from '../../src/ports/signals.ts';
import type { Stores } from '../../src/ports/stores.ts';
import type { Faults, Server } from './faults.ts';
import { faultyBus } from './faulty-bus.ts';
import { faultySignals } from './faulty-signals.ts';
import type { Oracle } from './oracle.ts';
import type { SimProcess } from './process.ts';
import type { Random } from './random.ts';
import type { VirtualTime } from './virtual-time.ts';

type Method = (...args: never[]) => Promise<unknown>;

export interface FaultyContext {
  faults: Faults;
  time: VirtualTime;
  random: Random;
  oracle: Oracle;
}

/** All stores as one process sees them. What takes effect is shown to the oracle at that very moment. */
export function faultyStores(stores: Stores, process: SimProcess, context: FaultyContext): Stores {
  const { faults, time, oracle } = context;
  const sending = oracleOfSends(oracle);
  const signals = faultySignals(stores.signals, process, context);
  const faulty: Stores = {
    bus: faultyBus(stores.bus, process, faults, time, { sending }),
    jobs: watched(stores.jobs, process, faults, 'mongodb', {
      insertMany: ([jobs]) => oracle.jobsWritten(jobs),
      replaceMany: ([changes]) => oracle.jobsWritten(changes.map(({ job }) => job)),
    }),
    catalog: watched(stores.catalog, process, faults, 'mongodb', {}),
    shards: watched(stores.shards, process, faults, 'mongodb', { create: ([shards]) => oracle.shardsMade(shards) }),
    leases: trusting(watched(stores.leases, process, faults, 'mongodb', {}), process, time),
    operations: watched(stores.operations, process, faults, 'mongodb', {}),
    triggers: connected(
      watched(stores.triggers, process, faults, 'redis', {
        claim: ([shard, epoch], result) => oracle.claimed(shard, epoch, result.status),
        scan: ([shard, { epoch }], result) => oracle.asOwner(shard, epoch, result.status),
        writeBack: ([shard, epoch, scores], result) => {
          oracle.asOwner(shard, epoch, result.status);
          if (result.status === 'ok') oracle.scored(shard, scores);
        },
      }),
      faults,
    ),
    signals,
    close: async () => {},
  };
  return signalling(faulty, signals);
}

type Watches<T> = {
  [M in keyof T]?: T[M] extends (...args: infer A) => Promise<infer R> ? (args: A, result: R) => void : never;
};

/** The same store, whose methods go through the faults; `watches` see what took effect. */
function watched<T extends object>(
  store: T,
  process: SimProcess,
  faults: Faults,
  server: Server,
  watches: Watches<T>,
): T {
  const faulty: Record<string, Method> = {};
  for (const [method, run] of Object.entries(store) as [string, Method][]) {
    const watch = watches[method as keyof T] as ((args: unknown[], result: unknown) => void) | undefined;
    faulty[method] = (...args) =>
      faults.call(process, {
        server,
        method,
        run:
          watch === undefined
            ? () => run(...args)
            : async () => {
                const result = await run(...args);
                watch(args, result);
                return result;
              },
      });
  }
  return faulty as T;
}

/** The one answer that no server gives: how often a connection to the trigger store was made. */
function connected(triggers: Stores['triggers'], faults: Faults): Stores['triggers'] {
  return { ...triggers, connections: () => faults.connections };
}

/** Longest that the firing loop sleeps, in ms, with room for the renewal. */
const SLEPT_MS = 4_000;

/** Notes from when on a worker may trust its session. */
function trusting(leases: Stores['leases'], process: SimProcess, time: VirtualTime): Stores['leases'] {
  return {
    ...leases,
    async openSession(session) {
      const begunMs = time.nowMs;
      await leases.openSession(session);
      process.renewedMs = begunMs;
    },
    async renewSession(incarnation, report) {
      const begunMs = time.nowMs;
      // A wheel that slept because nothing was due is not behind: the simulation lets it sleep for longer than it asks.
      const wheelLagMs = report.wheelLagMs > SLEPT_MS ? report.wheelLagMs : 0;
      const renewed = await leases.renewSession(incarnation, { ...report, wheelLagMs });
      process.renewedMs = renewed ? begunMs : Number.NEGATIVE_INFINITY;
      return renewed;
    },
  };
}

/** A worker that sends triggers must trust its lease: by its session, or by a commit of its own on the lane of that slot. */
function oracleOfSends(oracle: Oracle) {
  return (process: SimProcess, batch: readonly { topic: string; messages: readonly unknown[] }[]): void => {
    if (process.role !== 'worker') return;
    const { headers } = (batch.find(({ topic }) => topic.startsWith('t.'))?.messages[0] ?? {}) as {
      headers?: Record<string, string>;
    };
    if (headers === undefined) return;
    const slot = oracle.slotOf(headers['ce_id']!);
    const lane = [...process.committedMs].find(([id]) => oracle.slotOfLane(id) === slot)?.[1];
    oracle.sent(process.name, Math.max(process.renewedMs, lane ?? Number.NEGATIVE_INFINITY));
  };
}
