import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Lease, LeaseStore } from '../../src/ports/lease-store.ts';
import { reopened, type StoreOpening } from './opening.ts';
import { sampleLease, sampleSession } from './samples.ts';

const report = { rates: { 'exactly-once/3': 12.5 }, wheelLagMs: 4, wheels: 2 };

function sessionStatements(opened: () => StoreOpening<LeaseStore>): void {
  test('a session stands with everything it said; each renewal raises its beat and stores the report', async () => {
    const { store } = opened();
    await store.openSession(sampleSession('w1'));
    expect(await store.sessions()).toEqual([sampleSession('w1')]);
    expect(await store.renewSession('w1', report)).toBe(true);
    expect(await store.renewSession('w1', report)).toBe(true);
    expect(await (await reopened(opened())).sessions()).toEqual([sampleSession('w1', { beat: 2, ...report })]);
  });

  test('a session is declared dead at the beat that was seen, and stays dead', async () => {
    const { store } = opened();
    await store.openSession(sampleSession('w1'));
    await store.openSession(sampleSession('w2'));
    await store.renewSession('w1', report);
    expect(await store.endSession('w1', 0)).toBe(false);
    expect(await store.renewSession('w1', report)).toBe(true);
    expect(await store.endSession('w1', 2)).toBe(true);
    expect(await store.renewSession('w1', report)).toBe(false);
    expect(await store.endSession('w1', 2)).toBe(false);
    expect(await store.endSession('w1', null)).toBe(false);
    expect((await store.sessions()).map((session) => session.incarnation)).toEqual(['w2']);
    expect(await store.renewSession('w1', report)).toBe(false);
  });

  test('a session closes itself whatever its beat; an unknown one cannot be renewed or ended', async () => {
    const { store } = opened();
    await store.openSession(sampleSession('w1'));
    await store.renewSession('w1', report);
    expect(await store.endSession('w1', null)).toBe(true);
    expect(await store.renewSession('w1', report)).toBe(false);
    expect(await store.renewSession('nobody', report)).toBe(false);
    expect(await store.endSession('nobody', null)).toBe(false);
    expect(await store.sessions()).toEqual([]);
  });
}

function leadStatements(opened: () => StoreOpening<LeaseStore>): void {
  test('the first to ask leads; the holder keeps it with a rising beat; others see its term and beat', async () => {
    const { store } = opened();
    const first = await store.lead('manager', 'm1', null);
    expect(first).toMatchObject({ holder: 'm1', mine: true });
    const kept = await store.lead('manager', 'm1', null);
    expect(kept).toMatchObject({ holder: 'm1', term: first.term, mine: true });
    expect(kept.beat).toBeGreaterThan(first.beat);
    expect(await store.lead('manager', 'm2', null)).toEqual({ ...kept, mine: false });
    expect(await store.lead('sweeper', 'm2', null)).toMatchObject({ holder: 'm2', mine: true });
  });

  test('another takes the leadership over only where term and beat stand as it saw them', async () => {
    const { store } = opened();
    const first = await store.lead('manager', 'm1', null);
    const seen = { term: first.term, beat: first.beat };
    await store.lead('manager', 'm1', null);
    expect(await store.lead('manager', 'm2', seen)).toMatchObject({ holder: 'm1', mine: false });
    const now = await store.lead('manager', 'm2', null);
    const taken = await store.lead('manager', 'm2', { term: now.term, beat: now.beat });
    expect(taken).toMatchObject({ holder: 'm2', term: first.term + 1, mine: true });
    expect(await store.lead('manager', 'm1', null)).toMatchObject({ holder: 'm2', term: taken.term, mine: false });
  });

  test('of several that saw the same one takes it', async () => {
    const { store } = opened();
    const { term, beat } = await store.lead('manager', 'dead', null);
    const answers = await Promise.all(['a', 'b', 'c', 'd'].map((one) => store.lead('manager', one, { term, beat })));
    expect(answers.filter((answer) => answer.mine)).toHaveLength(1);
    expect(new Set(answers.map((answer) => answer.holder)).size).toBe(1);
  });

  test('given up, the next that asks has it, with a higher term; only the holder can give it up', async () => {
    const { store } = opened();
    const first = await store.lead('manager', 'm1', null);
    await store.resign('manager', 'm2');
    expect(await store.lead('manager', 'm2', null)).toMatchObject({ holder: 'm1', mine: false });
    await store.resign('manager', 'm1');
    await store.resign('manager', 'm1');
    await store.resign('nothing', 'm1');
    const again = await reopened(opened());
    const next = await again.lead('manager', 'm2', null);
    expect(next).toMatchObject({ holder: 'm2', mine: true });
    expect(next.term).toBeGreaterThan(first.term);
  });
}

function leaseStatements(opened: () => StoreOpening<LeaseStore>): void {
  const slots = [0, 1, 2].map((slot) => ({ delivery: 'exactly-once' as const, slot }));
  const lease = async (store: LeaseStore, slot: number): Promise<Lease> =>
    (await store.leases()).find((one) => one.slot === slot && one.delivery === 'exactly-once')!;

  test('slots begin free with epoch 0; those that exist are left alone', async () => {
    const { store } = opened();
    await store.createSlots([]);
    expect(await store.leases()).toEqual([]);
    await store.createSlots(slots.slice(0, 2));
    expect(await store.assign(sampleLease(1), 'w1')).toBe(true);
    await store.createSlots([...slots, { delivery: 'at-least-once', slot: 1 }]);
    expect((await store.leases()).length).toBe(4);
    expect(await lease(store, 0)).toEqual(sampleLease(0));
    expect(await lease(store, 1)).toEqual(sampleLease(1, { owner: 'w1', epoch: 1 }));
    expect(await (await reopened(opened())).leases('w1')).toEqual([sampleLease(1, { owner: 'w1', epoch: 1 })]);
  });

  test('a free slot is assigned once per state seen; each assignment raises the epoch by one', async () => {
    const { store } = opened();
    await store.createSlots(slots);
    const free = await lease(store, 0);
    expect((await Promise.all(['a', 'b', 'c'].map((one) => store.assign(free, one)))).filter(Boolean)).toHaveLength(1);
    const held = await lease(store, 0);
    expect(held.epoch).toBe(1);
    expect(await store.assign(held, 'd')).toBe(false);
    expect(await store.free(held)).toBe(true);
    expect(await lease(store, 0)).toEqual(sampleLease(0, { epoch: 1 }));
    expect(await store.assign(free, 'd')).toBe(false);
    expect(await store.assign(await lease(store, 0), 'd')).toBe(true);
    expect(await lease(store, 0)).toEqual(sampleLease(0, { owner: 'd', epoch: 2 }));
    expect(await store.assign(sampleLease(99), 'd')).toBe(false);
  });

  test('a slot is freed where owner and epoch are those seen', async () => {
    const { store } = opened();
    await store.createSlots(slots);
    await store.assign(sampleLease(0), 'w1');
    expect(await store.free(sampleLease(0, { owner: 'w2', epoch: 1 }))).toBe(false);
    expect(await store.free(sampleLease(0, { owner: 'w1', epoch: 0 }))).toBe(false);
    expect(await store.free(sampleLease(0, { owner: 'w1', epoch: 1 }))).toBe(true);
    expect(await store.free(sampleLease(0, { owner: 'w1', epoch: 1 }))).toBe(false);
    expect(await store.free(sampleLease(1))).toBe(false);
  });

  test('an owner is asked to let go, and the request is taken back or ends with the ownership', async () => {
    const { store } = opened();
    await store.createSlots(slots);
    expect(await store.ask(sampleLease(0), 'release')).toBe(false);
    await store.assign(sampleLease(0), 'w1');
    const held = sampleLease(0, { owner: 'w1', epoch: 1 });
    expect(await store.ask({ ...held, owner: 'w2' }, 'release')).toBe(false);
    expect(await store.ask({ ...held, epoch: 2 }, 'release')).toBe(false);
    expect(await store.ask(held, 'release')).toBe(true);
    expect(await lease(store, 0)).toEqual({ ...held, wanted: 'release' });
    expect(await store.ask({ ...held, wanted: 'release' }, 'keep')).toBe(true);
    expect(await lease(store, 0)).toEqual(held);
    await store.ask(held, 'release');
    expect(await store.free(held)).toBe(true);
    expect(await lease(store, 0)).toEqual(sampleLease(0, { epoch: 1 }));
  });

  test('leases of one owner', async () => {
    const { store } = opened();
    await store.createSlots(slots);
    await store.assign(sampleLease(0), 'w1');
    await store.assign(sampleLease(2), 'w1');
    await store.assign(sampleLease(1), 'w2');
    expect((await store.leases('w1')).map((one) => one.slot).sort()).toEqual([0, 2]);
    expect(await store.leases('nobody')).toEqual([]);
  });
}

/** Every statement of `src/ports/lease-store.ts` as a test. */
export function leaseStoreContract(name: string, open: () => Promise<StoreOpening<LeaseStore>>): void {
  describe(`lease store: ${name}`, () => {
    let opening: StoreOpening<LeaseStore>;
    beforeEach(async () => {
      opening = await open();
    });
    afterEach(async () => {
      await opening?.close();
    });
    sessionStatements(() => opening);
    leadStatements(() => opening);
    leaseStatements(() => opening);
  });
}
