import { localBus } from '../../src/adapters/local/bus.ts';
import { localSignals } from '../../src/adapters/local/signals.ts';
import { memoryCatalogStore } from '../../src/adapters/memory/catalog-store.ts';
import { memoryJobStore } from '../../src/adapters/memory/job-store.ts';
import { memoryLeaseStore } from '../../src/adapters/memory/lease-store.ts';
import { MemoryLog } from '../../src/adapters/memory/log.ts';
import { memoryOperationStore } from '../../src/adapters/memory/operation-store.ts';
import { memoryShardStore } from '../../src/adapters/memory/shard-store.ts';
import type { Delivery } from '../../src/core/job.ts';
import type { Installation } from '../../src/ports/catalog-store.ts';
import { type Clock, sleepBy } from '../../src/ports/clock.ts';
import type { Stores } from '../../src/ports/stores.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { observedLog } from './observed-log.ts';
import type { Oracle } from './oracle.ts';
import type { Random } from './random.ts';
import { Replicated } from './replicated.ts';
import type { VirtualTime } from './virtual-time.ts';

/** What a seed is made of. */
export interface Shape {
  startMs: number;
  slotsPerSet: number;
  changesPartitions: number;
  deliveries: [Delivery, ...Delivery[]];
  managers: number;
  workers: number;
  apis: number;
  /** Greatest error of a clock, in ms; below the limit of 500 ms that refuses a start. */
  skewMs: number;
  /** Times that Redis may lose its primary, and whether it may lose everything. */
  failovers: number;
  losesRedis: boolean;
  /** Shards of each slot at the beginning; where there are too many, the manager drains some, and their jobs move. */
  shardsPerSlot: number;
}

export const TRIGGER_PARTITIONS = 2;

export function shapeOf(random: Random): Shape {
  const both: [Delivery, ...Delivery[]] = ['at-least-once', 'exactly-once'];
  return {
    startMs: Date.UTC(2026, 11, 1),
    slotsPerSet: random.pick([1, 2, 2, 3]),
    changesPartitions: random.int(1, 2),
    deliveries: random.pick([['exactly-once'], ['at-least-once'], both]),
    managers: random.pick([1, 2, 2]),
    workers: random.pick([1, 2, 2, 3]),
    apis: random.pick([1, 2]),
    skewMs: random.pick([0, 0, 40, 200]),
    failovers: random.pick([0, 0, 3]),
    losesRedis: random.chance(0.3),
    shardsPerSlot: random.pick([0, 0, 6]),
  };
}

/** Trigger topics by logical cluster, of which there is one for each delivery. */
export function topicsOf({ deliveries }: Shape): Map<string, string> {
  return new Map(deliveries.map((delivery) => [delivery, `t.${delivery}`]));
}

/** Reads wait on the bus's side; a waiting read is woken by a record, so a longer wait is only fewer empty answers. */
const READ_STRETCH = 8;

function serverClock(time: VirtualTime, startMs: number): Clock {
  const after: Clock['after'] = (ms, run) => time.after(ms * READ_STRETCH, run);
  return {
    wallMs: () => startMs + time.nowMs,
    monotonicMs: () => time.nowMs,
    after,
    sleep: sleepBy(after),
  };
}

/** Stores in memory with an empty installation in them. */
export async function install(
  shape: Shape,
  time: VirtualTime,
  oracle: Oracle,
): Promise<{ stores: Stores; installation: Installation; redis: Replicated }> {
  const clock = serverClock(time, shape.startMs);
  const redis = new Replicated(clock, shape.failovers);
  const bus = localBus(observedLog(new MemoryLog(clock), oracle), clock, silentTelemetry);
  const stores: Stores = {
    bus,
    jobs: memoryJobStore(),
    catalog: memoryCatalogStore(),
    shards: memoryShardStore(),
    leases: memoryLeaseStore(),
    operations: memoryOperationStore(clock),
    triggers: redis.store,
    signals: localSignals(),
    close: async () => {},
  };
  const slots = 2 * shape.slotsPerSet;
  await bus.ensureTopics([
    { name: 'carillon.changes', partitions: shape.changesPartitions },
    { name: 'carillon.answers', partitions: 1 },
    { name: 'carillon.fast', partitions: slots },
    { name: 'carillon.progress', partitions: slots, compacted: true },
    { name: 'carillon.cursors', partitions: slots, compacted: true },
    ...[...topicsOf(shape).values()].map((name) => ({ name, partitions: TRIGGER_PARTITIONS })),
  ]);
  const installation = await stores.catalog.installation({
    id: 'sim',
    dataVersion: 1,
    slotsPerSet: shape.slotsPerSet,
    lanesPerSlot: 1,
    changesPartitions: shape.changesPartitions,
    zoneDataVersion: 'none',
    zoneFingerprints: {},
  });
  const shards = shape.deliveries.flatMap((delivery, set) =>
    Array.from({ length: shape.slotsPerSet * shape.shardsPerSlot }, (_, n) => ({
      id: 1 + n + set * shape.slotsPerSet * shape.shardsPerSlot,
      delivery,
      slot: n % shape.slotsPerSet,
      state: 'new' as const,
      jobs: 0,
      nextNumber: 1,
      triggersPerSecond: 0,
      saturated: false,
    })),
  );
  await stores.shards.create(shards);
  oracle.shardsMade(shards);
  for (const [name, topic] of topicsOf(shape)) {
    await stores.catalog.createCluster({
      name,
      topic,
      partitions: TRIGGER_PARTITIONS,
      envelope: 'cloudevents',
      delivery: name as Delivery,
      createdMs: shape.startMs,
    });
  }
  return { stores, installation, redis };
}
