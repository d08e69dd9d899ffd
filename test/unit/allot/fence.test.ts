import { describe, expect, it } from 'vitest';
import { fenceSlots } from '../../../src/engine/allot/fence.ts';
import type { BusLane } from '../../../src/ports/bus.ts';

const SLOTS = Array.from({ length: 10 }, (_, slot) => ({ delivery: 'at-least-once' as const, slot }));

/** A bus whose lanes open when `open` lets them. */
function bus(open: (id: string) => Promise<void>) {
  const asked: string[] = [];
  const closed: string[] = [];
  const lane = async (id: string): Promise<BusLane> => {
    asked.push(id);
    await open(id);
    return { id, commit: async () => {}, close: async () => void closed.push(id) };
  };
  return { lane, asked, closed };
}

describe('fencing', () => {
  it('opens and closes every lane of every slot once', async () => {
    const own = bus(async () => {});
    await fenceSlots(own, { id: 'i', lanesPerSlot: 4 }, SLOTS, new AbortController().signal);
    const ids = SLOTS.flatMap(({ slot }) => [0, 1, 2, 3].map((lane) => `i/a${slot}/${lane}`));
    expect(own.asked.sort()).toEqual(ids.sort());
    expect(own.closed.sort()).toEqual(ids);
  });

  it('tries all lanes though one fails, and tells of it', async () => {
    const own = bus(async (id) => {
      if (id === 'i/a3/1') throw new Error('away');
    });
    const fencing = fenceSlots(own, { id: 'i', lanesPerSlot: 4 }, SLOTS, new AbortController().signal);
    await expect(fencing).rejects.toThrow('away');
    expect(own.closed).toHaveLength(39);
  });

  it('opens no further lane once it is too late', async () => {
    const gate = Promise.withResolvers<void>();
    const own = bus(() => gate.promise);
    const over = new AbortController();
    const fencing = fenceSlots(own, { id: 'i', lanesPerSlot: 4 }, SLOTS, over.signal);
    const underWay = own.asked.length;
    over.abort();
    gate.resolve();
    await fencing;
    expect(underWay).toBeLessThan(40);
    expect(own.asked).toHaveLength(underWay);
    expect(own.closed).toHaveLength(underWay);
  });
});
