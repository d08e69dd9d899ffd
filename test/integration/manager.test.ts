import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { startManager } from '../../shard-manager/manager.ts';
import { kafkaBus } from '../../src/adapters/kafka/bus.ts';
import { localSignals } from '../../src/adapters/local/signals.ts';
import { connectMongo } from '../../src/adapters/mongodb/connect.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { laneId, TOPICS } from '../../src/core/topics.ts';
import { signalling } from '../../src/ports/signals.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { dropDatabase } from '../contract/mongodb-opening.ts';

const servers = inject('servers');
const clock = systemClock();
const SLOTS = 8;

/** What to close after a test, last opened first. */
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function opened() {
  const id = randomUUID();
  const mongo = { uri: servers!.mongodb, database: `test-${id}` };
  const stores = await connectMongo(mongo, silentTelemetry);
  const bus = kafkaBus({ brokers: servers!.kafka, clientId: `manager-${id}` }, silentTelemetry);
  closing.push(
    () => dropDatabase(mongo.uri, mongo.database),
    () => stores.close(),
    () => bus.close(),
  );
  const told: string[] = [];
  const telemetry = { ...silentTelemetry, event: (_: string, message: string) => void told.push(message) };
  const signals = localSignals();
  const manager = async (pid: number) => {
    const own = startManager(
      {
        stores: { ...signalling(stores, signals), bus, signals },
        clock,
        telemetry,
        installation: { id, slotsPerSet: SLOTS, lanesPerSlot: 2 },
        deliveries: ['at-least-once'],
      },
      { host: 'h', pid },
    );
    await own.start();
    closing.push(() => own.stop());
    return own;
  };
  /** A worker that only renews its session. */
  const worker = async (incarnation: string, pid: number) => {
    const report = { rates: {}, wheelLagMs: 0, wheels: 1 };
    await stores.leases.openSession({ incarnation, role: 'worker', host: 'h', pid, startedMs: 0, beat: 0, ...report });
    const renewal = setInterval(() => void stores.leases.renewSession(incarnation, report).catch(() => {}), 500);
    const kill = async (): Promise<void> => clearInterval(renewal);
    closing.push(kill);
    return { kill };
  };
  const until = async (holds: () => Promise<boolean> | boolean): Promise<void> => {
    while (!(await holds())) await clock.sleep(20);
  };
  const slotsOf = async (owner: string): Promise<number> => (await stores.leases.leases(owner)).length;
  return { id, stores, bus, told, manager, worker, until, slotsOf };
}

describe.skipIf(servers === null)('manager on MongoDB and Kafka', () => {
  it('gives the slots of a dead worker to another, after its lanes were fenced', async () => {
    const { id, bus, told, manager, worker, until, slotsOf } = await opened();
    await bus.ensureTopics([{ name: TOPICS.progress, partitions: 2 * SLOTS, compacted: true }]);
    await manager(1);
    const a = await worker('A', 2);
    await until(async () => (await slotsOf('A')) === SLOTS);
    const lane = await bus.lane(laneId(id, 'at-least-once', 0, 0));
    closing.push(() => lane.close());
    const record = [{ topic: TOPICS.progress, messages: [{ partition: 0, key: id, value: new Uint8Array(1) }] }];
    await lane.commit(record);

    await a.kill();
    const killedMs = clock.monotonicMs();
    await worker('B', 3);
    await until(async () => (await slotsOf('B')) === SLOTS);
    console.log(`taken over ${Math.round(clock.monotonicMs() - killedMs)} ms after the death`);
    await expect(lane.commit(record)).rejects.toMatchObject({ code: 'lane-fenced' });
    expect(told.filter((message) => message === 'a session was declared dead')).toHaveLength(1);
    expect(told).not.toContain('slots of a dead owner were not fenced in time; their next owner does it');
  });

  it('two managers: one makes the shards, and the other leads when it stops', async () => {
    const { stores, told, manager, worker, until, slotsOf } = await opened();
    const first = await manager(1);
    await until(() => told.includes('this manager leads now'));
    await manager(2);
    await until(async () => (await stores.shards.shards()).length === 2);
    await first.stop();
    await until(() => told.filter((message) => message === 'this manager leads now').length === 2);
    await worker('A', 3);
    await until(async () => (await slotsOf('A')) === SLOTS);
    expect(await stores.shards.shards()).toHaveLength(2);
  });
});
