import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AllotPlan, type AllotSlot, type AllotWorker, allot, slotWeight } from '../../src/core/allotment.ts';

const workerOf = (id: string, capacity = 1, lagging = false): AllotWorker => ({ id, capacity, lagging });
const slotsOf = (count: number, owner: string | null, weight = 1): AllotSlot[] =>
  Array.from({ length: count }, (_, n) => ({ id: `a${n}`, owner, releasing: false, weight }));

/** What the manager and obedient workers make of a plan: asked slots are let go, and given away in the next round. */
function carryOut(slots: readonly AllotSlot[], plan: AllotPlan): AllotSlot[] {
  const given = new Map(plan.assign.map(({ slot, worker }) => [slot, worker]));
  return slots.map((slot) => {
    if (plan.keep.includes(slot.id)) return { ...slot, releasing: false };
    if (slot.releasing || plan.release.includes(slot.id)) return { ...slot, owner: null, releasing: false };
    return { ...slot, owner: given.get(slot.id) ?? slot.owner };
  });
}

function loads(workers: readonly AllotWorker[], slots: readonly AllotSlot[]): number[] {
  const of = (id: string): number => slots.filter((s) => s.owner === id).reduce((sum, s) => sum + s.weight, 0);
  return workers.map(({ id, capacity }) => of(id) / capacity);
}

/** Rounds until nothing more is asked or given, and all that was asked back on the way. */
function settle(workers: AllotWorker[], first: AllotSlot[], mostRounds: number) {
  let slots = first;
  const moved: string[] = [];
  for (let round = 0; round < mostRounds; round++) {
    const plan = allot(workers, slots);
    const resting = plan.assign.length + plan.release.length + plan.keep.length === 0;
    if (resting && slots.every((slot) => !slot.releasing)) return { slots, moved, rounds: round };
    moved.push(...plan.release);
    slots = carryOut(slots, plan);
  }
  throw new Error(`not settled after ${mostRounds} rounds`);
}

const workersArbitrary = fc
  .uniqueArray(
    fc.record({ id: fc.constantFrom(...'ABCDEFGH'), capacity: fc.integer({ min: 1, max: 4 }), lagging: fc.boolean() }),
    {
      minLength: 1,
      maxLength: 8,
      selector: (worker) => worker.id,
    },
  )
  .map((workers): AllotWorker[] => workers);

const situation = workersArbitrary.chain((workers) =>
  fc.record({
    workers: fc.constant(workers),
    slots: fc
      .array(
        fc.record({
          owner: fc.option(fc.constantFrom(...workers.map((worker) => worker.id)), { nil: null }),
          releasing: fc.boolean(),
          weight: fc.double({ min: 1, max: 10_000, noNaN: true }),
        }),
        { maxLength: 64 },
      )
      .map((list): AllotSlot[] =>
        list.map((slot, n) => ({ ...slot, id: `a${n}`, releasing: slot.releasing && slot.owner !== null })),
      ),
  }),
);

describe('allotment: properties', () => {
  it('gives every free slot once, to a living worker, and no owned one', () => {
    fc.assert(
      fc.property(situation, ({ workers, slots }) => {
        const { assign } = allot(workers, slots);
        const free = slots.filter((slot) => slot.owner === null).map((slot) => slot.id);
        expect(assign.map(({ slot }) => slot).sort()).toEqual(free.sort());
        for (const { worker } of assign) expect(workers.map(({ id }) => id)).toContain(worker);
      }),
    );
  });

  it('asks for few slots at once, only for owned ones, and for none twice', () => {
    fc.assert(
      fc.property(situation, ({ workers, slots }) => {
        const { release, keep } = allot(workers, slots);
        const underWay = slots.filter((slot) => slot.releasing && !keep.includes(slot.id)).length;
        const most = Math.max(1, Math.floor(slots.length / 8));
        if (release.length > 0) expect(underWay + release.length).toBeLessThanOrEqual(most);
        for (const id of release) {
          const slot = slots.find((one) => one.id === id);
          expect(slot?.owner).not.toBeNull();
          expect(slot?.releasing).toBe(false);
        }
        for (const id of keep) expect(slots.find((one) => one.id === id)?.releasing).toBe(true);
      }),
    );
  });

  it('comes to rest in a bounded number of moves, with every slot owned, and then asks for nothing', () => {
    fc.assert(
      fc.property(situation, ({ workers, slots }) => {
        const { slots: settled, moved } = settle(workers, slots, 300);
        expect(settled.every((slot) => slot.owner !== null)).toBe(true);
        expect(moved.length).toBeLessThanOrEqual(2 * slots.length);
      }),
    );
  });

  it('ends balanced: no two workers differ by more than the margin, or a little more than one slot', () => {
    fc.assert(
      fc.property(situation, ({ workers, slots }) => {
        const even = workers.map((worker) => ({ ...worker, lagging: false }));
        const { slots: settled } = settle(even, slots, 300);
        const of = loads(even, settled);
        const weight = settled.reduce((sum, slot) => sum + slot.weight, 0);
        const average = weight / even.reduce((sum, worker) => sum + worker.capacity, 0);
        const heaviest = Math.max(0, ...settled.map((slot) => slot.weight));
        expect(Math.max(...of) - Math.min(...of)).toBeLessThanOrEqual(Math.max(0.1 * average, 1.25 * heaviest) + 1e-6);
      }),
    );
  });

  it('leaves a settled set alone while rates swing by 2 %', () => {
    fc.assert(
      fc.property(
        situation,
        fc.infiniteStream(fc.double({ min: 0.98, max: 1.02, noNaN: true })),
        ({ workers, slots }, swing) => {
          const even = workers.map((worker) => ({ ...worker, capacity: 1, lagging: false }));
          const equal = slots.map((slot) => ({ ...slot, weight: 100 }));
          const { slots: settled } = settle(even, equal, 300);
          const swung = settled.map((slot) => ({ ...slot, weight: slot.weight * (swing.next().value ?? 1) }));
          expect(allot(even, swung).release).toEqual([]);
        },
      ),
    );
  });
});

describe('allotment: situations', () => {
  it('does nothing without workers', () => {
    expect(allot([], slotsOf(8, null))).toEqual({ assign: [], release: [], keep: [] });
  });

  it('shares 8 equal slots between two workers in the first round', () => {
    const workers = [workerOf('A'), workerOf('B')];
    expect(loads(workers, carryOut(slotsOf(8, null), allot(workers, slotsOf(8, null))))).toEqual([4, 4]);
  });

  it.each([
    [8, 2],
    [64, 2],
    [64, 5],
    [256, 3],
  ])('a worker that joins where %i slots are gets its share of one in %i within 20 rounds', (count, workersAfter) => {
    const workers = Array.from({ length: workersAfter }, (_, n) => workerOf(`W${n}`));
    const before = settle(workers.slice(1), slotsOf(count, null), 20).slots;
    const { slots, moved } = settle(workers, before, 20);
    const share = count / workersAfter;
    expect(slots.filter((slot) => slot.owner === 'W0').length).toBeGreaterThanOrEqual(Math.floor(share * 0.85));
    // Nobody but the one that joins gets anything, and no slot moves twice.
    expect(new Set(moved).size).toBe(moved.length);
    expect(moved.length).toBeLessThanOrEqual(Math.ceil(share));
  });

  it('goes by measured rate, not by number', () => {
    const heavy = slotsOf(2, 'A', 1_000);
    const light = slotsOf(6, 'A', 10).map((slot) => ({ ...slot, id: `b${slot.id}` }));
    const workers = [workerOf('A'), workerOf('B')];
    const { slots } = settle(workers, [...heavy, ...light], 20);
    expect(
      slots
        .filter((slot) => slot.weight === 1_000)
        .map((slot) => slot.owner)
        .sort(),
    ).toEqual(['A', 'B']);
  });

  it('goes by capacity: three wheels carry three times as much', () => {
    const workers = [workerOf('A', 1), workerOf('B', 3)];
    const { slots } = settle(workers, slotsOf(8, null), 20);
    expect(slots.filter((slot) => slot.owner === 'B')).toHaveLength(6);
  });

  it('gives nothing to a worker that lags, and takes from it', () => {
    const workers = [workerOf('A', 1, true), workerOf('B')];
    const slots = [...slotsOf(4, 'A'), ...slotsOf(2, 'B').map((slot) => ({ ...slot, id: `b${slot.id}` }))];
    expect(allot(workers, [...slots, { id: 'free', owner: null, releasing: false, weight: 1 }]).assign).toEqual([
      { slot: 'free', worker: 'B' },
    ]);
    expect(allot(workers, slots).release).toHaveLength(1);
  });

  it('takes a request back when the worker that would get the slot has gone', () => {
    const slots = slotsOf(2, 'A').map((slot) => ({ ...slot, releasing: true }));
    expect(allot([workerOf('A')], slots)).toEqual({ assign: [], release: [], keep: ['a0', 'a1'] });
  });

  it('leaves pinned slots where they are', () => {
    const slots = slotsOf(8, 'A').map((slot) => ({ ...slot, pinned: true }));
    expect(allot([workerOf('A'), workerOf('B')], slots).release).toEqual([]);
  });

  it('weighs idle slots by jobs, then by number', () => {
    expect(slotWeight(400, 20_000)).toBe(601);
    expect(slotWeight(0, 0)).toBe(1);
  });
});
