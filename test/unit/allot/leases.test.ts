import { describe, expect, it } from 'vitest';
import { installation } from './installation.ts';

const count = (told: readonly string[], words: string): number => told.filter((line) => line.includes(words)).length;

describe('manager: slots and workers', () => {
  it('gives all slots to the first worker, within a round', async () => {
    const { clock, manager, worker, shares } = installation();
    await manager();
    await clock.advance(300);
    expect(await shares()).toEqual({ nobody: 8 });
    await worker('A');
    await clock.advance(200);
    expect(await shares()).toEqual({ A: 8 });
  });

  it('shares them between workers that are there at the start', async () => {
    const { clock, manager, worker, shares } = installation();
    await worker('A');
    await worker('B');
    await manager();
    await clock.advance(500);
    expect(await shares()).toEqual({ A: 4, B: 4 });
  });

  it('a worker that joins has its share within seconds, one slot under way at a time, and then nothing moves', async () => {
    const { clock, manager, worker, shares, until, assigned, leases } = installation();
    await manager();
    await worker('A');
    await clock.advance(500);
    await worker('B');
    let most = 0;
    const took = await until(async () => {
      const away = (await leases()).filter(({ owner, wanted }) => owner === null || wanted === 'release').length;
      most = Math.max(most, away);
      return (await shares())['B'] === 4;
    }, 5_000);
    expect(took).toBeLessThanOrEqual(2_000);
    expect(most).toBe(1);
    const before = assigned.length;
    await clock.advance(60_000);
    expect(assigned).toHaveLength(before);
  });

  it('gives the slots of a leaving worker away at once, and none back to it', async () => {
    const { clock, manager, worker, shares, until, assigned, fenced, told } = installation();
    await manager();
    const a = await worker('A');
    await worker('B');
    await until(async () => (await shares())['B'] === 4 || (await shares())['A'] === 4, 5_000);
    const before = assigned.length;
    await a.leave();
    const took = await until(async () => (await shares())['B'] === 8, 1_000);
    expect(took).toBeLessThanOrEqual(150);
    expect(assigned.slice(before).map(({ owner }) => owner)).toEqual(['B', 'B', 'B', 'B']);
    await clock.advance(10_000);
    expect(fenced).toEqual([]);
    expect(count(told, 'dead')).toBe(0);
  });

  it('moves slots for measured rates only when an imbalance lasts', async () => {
    const { clock, manager, worker, owners, until, assigned } = installation();
    await manager();
    const a = await worker('A');
    const b = await worker('B');
    await until(async () => (await owners())['A']?.length === 4 && (await owners())['B']?.length === 4, 5_000);
    await clock.advance(5_000);
    const settled = assigned.length;
    const rate = async (heavy: number): Promise<void> => {
      const by = await owners();
      a.rates = Object.fromEntries(by['A']!.map((slot) => [slot, heavy]));
      b.rates = Object.fromEntries(by['B']!.map((slot) => [slot, 100]));
    };
    // A swing of some seconds moves nothing.
    await rate(300);
    await clock.advance(4_000);
    await rate(100);
    await clock.advance(30_000);
    expect(assigned).toHaveLength(settled);
    // 1,200 against 400: one slot moves, 900 against 700, and a second would not help.
    await rate(300);
    await clock.advance(60_000);
    expect(assigned.slice(settled).map(({ owner }) => owner)).toEqual(['B']);
  });

  it('takes a release back that its owner does not carry out, and leaves the slot in peace', async () => {
    const { clock, manager, worker, shares, leases, told } = installation();
    await manager();
    const a = await worker('A');
    a.obeys = false;
    await clock.advance(500);
    await worker('B');
    await clock.advance(9_500);
    expect((await leases()).filter(({ wanted }) => wanted === 'release')).toHaveLength(1);
    const asked = (await leases()).find(({ wanted }) => wanted === 'release')?.slot;
    await clock.advance(1_000);
    expect(count(told, 'a release hung')).toBe(1);
    expect((await leases()).find(({ slot }) => slot === asked)?.wanted).toBe('keep');
    a.obeys = true;
    await clock.advance(30_000);
    expect(await shares()).toEqual({ A: 4, B: 4 });
    expect((await leases()).find(({ slot }) => slot === asked)?.owner).toBe('A');
  });
});

describe('manager: deaths', () => {
  async function two() {
    const all = installation();
    await all.manager();
    const a = await all.worker('A');
    const b = await all.worker('B');
    await all.until(async () => (await all.shares())['A'] === 4 && (await all.shares())['B'] === 4, 5_000);
    await all.clock.advance(2_000);
    return { ...all, a, b };
  }

  it('gives the slots of a dead worker to another within 3 s, its lanes fenced before', async () => {
    const { a, clock, shares, until, fenced, assigned, owners } = await two();
    const slots = (await owners())['A']!;
    const before = assigned.length;
    a.kill();
    const took = await until(async () => {
      if (assigned.length > before) expect(fenced).toHaveLength(8);
      return (await shares())['B'] === 8;
    }, 3_000);
    expect(took).toBeGreaterThan(1_400);
    expect(took).toBeLessThanOrEqual(2_700);
    expect([...fenced].sort()).toEqual(slots.flatMap((slot) => [`i/${slot}/0`, `i/${slot}/1`]).sort());
    await clock.advance(10_000);
    expect(fenced).toHaveLength(8);
  });

  it('raises the epoch of each slot by one with each owner', async () => {
    const { a, clock, assigned } = await two();
    a.kill();
    await clock.advance(5_000);
    const epochs = new Map<string, number[]>();
    for (const { slot, epoch } of assigned) epochs.set(slot, [...(epochs.get(slot) ?? []), epoch]);
    expect(epochs.size).toBe(8);
    for (const list of epochs.values()) expect(list).toEqual(list.map((_, n) => n + 1));
  });

  it('a session declared dead stays so: its renewals fail', async () => {
    const { a, clock, stores } = await two();
    a.kill();
    await clock.advance(3_000);
    expect(await stores.leases.renewSession('A', { rates: {}, wheelLagMs: 0, wheels: 1 })).toBe(false);
  });

  it('does not wait for a bus that does not answer the fencing', async () => {
    const { a, shares, until, setLaneDelay, told } = await two();
    setLaneDelay(60_000);
    a.kill();
    await until(async () => (await shares())['B'] === 8, 3_200);
    expect(count(told, 'were not fenced in time')).toBe(1);
  });

  it('an outage of the store for 20 s kills nobody and moves nothing', async () => {
    const { clock, setOutage, assigned, shares, told } = await two();
    const before = assigned.length;
    setOutage('refused');
    await clock.advance(20_000);
    setOutage('up');
    await clock.advance(20_000);
    expect(assigned).toHaveLength(before);
    expect(await shares()).toEqual({ A: 4, B: 4 });
    expect(count(told, 'a session was declared dead')).toBe(0);
  });

  it('both workers dying at once looks like the store, once; then they are dead', async () => {
    const { a, b, clock, told, shares } = await two();
    a.kill();
    b.kill();
    await clock.advance(3_000);
    expect(count(told, 'the store is suspected')).toBe(1);
    expect(count(told, 'a session was declared dead')).toBe(0);
    await clock.advance(2_500);
    expect(count(told, 'a session was declared dead')).toBe(2);
    expect(await shares()).toEqual({ nobody: 8 });
  });

  it('frees what a manager that died between declaring and freeing left behind', async () => {
    const { stores, shares, until, fenced } = await two();
    await stores.leases.endSession('A', null);
    const took = await until(async () => (await shares())['B'] === 8, 1_000);
    expect(took).toBeLessThanOrEqual(150);
    expect(fenced).toHaveLength(8);
  });
});

describe('managers among themselves', () => {
  it('one leads; when it dies another does within 3 s', async () => {
    const { clock, manager, worker, told, shares, until } = installation();
    const first = await manager();
    await clock.advance(300);
    await manager();
    await clock.advance(10_000);
    expect(count(told, 'leads now')).toBe(1);
    first.cut('silent');
    await until(() => count(told, 'leads now') === 2, 3_000);
    await worker('A');
    await clock.advance(300);
    expect(await shares()).toEqual({ A: 8 });
  });

  it('a process with the leader and a worker in it dies: its slots are elsewhere within 3 s', async () => {
    const { clock, manager, worker, shares, until } = installation();
    const first = await manager(100);
    const a = await worker('A', 100);
    await clock.advance(300);
    await manager(200);
    await worker('B', 200);
    await until(async () => (await shares())['A'] === 4, 5_000);
    await clock.advance(5_000);
    first.cut('silent');
    a.kill();
    const took = await until(async () => (await shares())['B'] === 8, 3_000);
    expect(took).toBeGreaterThan(1_400);
  });

  it('a leader that cannot renew stops acting before another may lead, and comes back as a follower', async () => {
    const { clock, manager, worker, told, assigned } = installation();
    const first = await manager();
    await clock.advance(300);
    await manager();
    await clock.advance(3_000);
    first.cut('refused');
    const cutMs = clock.monotonicMs();
    await clock.advance(10_000);
    const changes = told.filter((line) => line.includes('leads')).map((line) => line.replace(' this manager', ''));
    const [, lostMs, wonMs] = changes.map((line) => Number(line.split(' ')[0]));
    expect(changes.map((line) => line.split(' ').slice(1).join(' '))).toEqual([
      'leads now',
      'leads no more',
      'leads now',
    ]);
    expect(lostMs! - cutMs).toBeLessThan(2_000);
    expect(wonMs!).toBeGreaterThan(lostMs!);
    first.cut('up');
    await clock.advance(5_000);
    await worker('A');
    await clock.advance(1_000);
    expect(count(told, 'leads')).toBe(3);
    expect(assigned).toHaveLength(8);
    // Its session was ended meanwhile; it has a new one.
    expect(count(told, 'goes on as a new one')).toBe(1);
  });

  it('a leader that stops hands over at once', async () => {
    const { clock, manager, told, until, stores } = installation();
    const first = await manager();
    await clock.advance(300);
    await manager();
    await clock.advance(1_000);
    await first.service.stop();
    expect(await until(() => count(told, 'leads now') === 2, 1_000)).toBeLessThanOrEqual(300);
    expect(await stores.leases.sessions()).toHaveLength(1);
  });
});
