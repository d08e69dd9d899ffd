import { describe, expect, test } from 'vitest';
import type { Lease } from '../../../src/ports/lease-store.ts';
import type { Service } from '../../../src/runtime/service.ts';
import { startWorker } from '../../../trigger-worker/worker.ts';
import { every, rate, T0, World } from '../engine/world.ts';

/** A world with leases and a worker that has its wheel in this thread. */
async function withWorker(): Promise<{ world: World; start(): Promise<Service> }> {
  const world = await World.open('at-least-once');
  await world.stores.leases.createSlots([{ delivery: 'at-least-once', slot: 0 }]);
  const start = async (): Promise<Service> => {
    const worker = startWorker(
      { stores: world.stores, clock: world.clock, telemetry: world.told, installation: { id: 'i', slotsPerSet: 1 } },
      {
        host: 'here',
        pid: 1,
        wheels: 0,
        misfireAfterMs: 10_000,
        clockOffsetMs: 0,
        threadStores: { module: '', config: null },
      },
    );
    await worker.start();
    return worker;
  };
  return { world, start };
}

const sessions = async (world: World) => await world.stores.leases.sessions();
const lease = async (world: World): Promise<Lease> => (await world.stores.leases.leases())[0]!;

async function assign(world: World, index = 0): Promise<string> {
  const { incarnation } = (await sessions(world))[index]!;
  expect(await world.stores.leases.assign(await lease(world), incarnation)).toBe(true);
  return incarnation;
}

describe('worker', () => {
  test('takes a slot that is leased to it, fires it on time, and reports its rate', async () => {
    const { world, start } = await withWorker();
    const worker = await start();
    expect((await sessions(world)).map(({ role, host, wheels }) => [role, host, wheels])).toEqual([
      ['worker', 'here', 1],
    ]);
    await assign(world);
    await world.clock.advance(500);
    await world.put('j', { schedule: rate(100) });
    await world.clock.advance(10_000);
    expect(await world.timesOf('j')).toEqual(every(100, T0 + 600, T0 + 10_500));
    for (const { atMs, nominalMs } of await world.fired()) expect(atMs - nominalMs).toBeLessThanOrEqual(5);
    const [session] = await sessions(world);
    expect(session!.rates['a0']).toBeGreaterThan(8);
    expect(session!.rates['a0']).toBeLessThan(12);
    const stopping = worker.stop();
    await world.clock.advance(1_000);
    await stopping;
    expect(await sessions(world)).toEqual([]);
    expect((await lease(world)).owner).toBeNull();
  });

  test('a handover between two workers: asked to let go, it drains and frees; no time is lost, late or doubled', async () => {
    const { world, start } = await withWorker();
    await start();
    await assign(world);
    await world.clock.advance(500);
    await world.put('j', { schedule: rate(100) });
    await world.clock.advance(2_000);
    await start();
    await world.stores.leases.ask(await lease(world), 'release');
    for (let i = 0; i < 100 && (await lease(world)).owner !== null; i += 1) await world.clock.advance(10);
    expect((await lease(world)).owner).toBeNull();
    await assign(world, 1);
    await world.clock.advance(3_000);
    expect(await world.timesOf('j')).toEqual(every(100, T0 + 600, (await world.timesOf('j')).at(-1)!));
    const fired = await world.fired();
    expect(Math.max(...fired.map(({ atMs, nominalMs }) => atMs - nominalMs))).toBeLessThan(300);
    expect(fired.at(-1)!.nominalMs).toBeGreaterThanOrEqual(world.nowMs - 105);
  });

  test('a worker whose session was ended drops everything and goes on as a new one', async () => {
    const { world, start } = await withWorker();
    await start();
    const incarnation = await assign(world);
    await world.clock.advance(500);
    await world.put('j', { schedule: rate(100) });
    await world.clock.advance(1_000);
    const held = await lease(world);
    await world.stores.leases.endSession(incarnation, null);
    await world.stores.leases.free(held);
    await world.clock.advance(1_000);
    const stopped = (await world.timesOf('j')).length;
    await world.clock.advance(1_000);
    expect(await world.timesOf('j')).toHaveLength(stopped);
    const [session] = await sessions(world);
    expect(session!.incarnation).not.toBe(incarnation);
    await assign(world);
    await world.clock.advance(1_000);
    const times = await world.timesOf('j');
    expect([...new Set(times)]).toEqual(every(100, T0 + 600, times.at(-1)!));
    expect(times.at(-1)).toBeGreaterThanOrEqual(world.nowMs - 105);
  });

  test('while the lease store does not answer, a slot goes on as long as its own commits succeed', async () => {
    const { world, start } = await withWorker();
    const { leases } = world.stores;
    await start();
    await assign(world);
    await world.clock.advance(500);
    await world.put('j', { schedule: rate(100) });
    const { renewSession, leases: list } = leases;
    const away = async (): Promise<never> => {
      throw new Error('electing');
    };
    Object.assign(leases, { renewSession: away, leases: away });
    await world.clock.advance(10_000);
    Object.assign(leases, { renewSession, leases: list });
    await world.clock.advance(1_000);
    expect(await world.timesOf('j')).toEqual(every(100, T0 + 600, world.nowMs));
  });
});
