import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { manualClock } from '../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../src/adapters/memory/stores.ts';
import { type Signal, type Signals, signalling } from '../../src/ports/signals.ts';
import { sampleLease, sampleSession, sampleShard } from './samples.ts';

export interface SignalsOpening {
  /** One end; `another` is that of another thread or process of the same installation, or the same. */
  signals: Signals;
  another: Signals;
  close(): Promise<void>;
}

/** Ends when all that was raised before has come to both ends: a signal that nobody else raises goes the same way. */
async function arrived({ signals, another }: SignalsOpening): Promise<void> {
  const probe = 'probe' as Signal;
  const reached = [signals, another].map((end) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    return { promise, stop: end.watch(probe, resolve) };
  });
  // One that is not connected yet hears nothing.
  const again = setInterval(() => signals.raise(probe), 20);
  signals.raise(probe);
  await Promise.all(reached.map(({ promise }) => promise));
  clearInterval(again);
  for (const { stop } of reached) stop();
}

/** Every statement of `src/ports/signals.ts` as a test. */
export function signalsContract(name: string, open: () => Promise<SignalsOpening>): void {
  describe(`signals: ${name}`, () => {
    let opening: SignalsOpening;
    beforeEach(async () => {
      opening = await open();
    });
    afterEach(async () => {
      await opening?.close();
    });

    test('come to everybody who watches for them, and to whoever raised them, until the watch ends', async () => {
      const { signals, another } = opening;
      const told: string[] = [];
      const ends = [
        signals.watch('leases', () => told.push('own leases')),
        another.watch('leases', () => told.push('leases')),
        another.watch('shards', () => told.push('shards')),
      ];
      await arrived(opening);
      told.length = 0;
      signals.raise('leases');
      await arrived(opening);
      expect(told.sort()).toEqual(['leases', 'own leases']);
      ends[1]!();
      signals.raise('leases');
      signals.raise('places');
      signals.raise('shards');
      await arrived(opening);
      expect(told.sort()).toEqual(['leases', 'own leases', 'own leases', 'shards']);
      for (const end of ends) end();
    });

    test('are raised by the changes that others wait for, and by nothing else', async () => {
      const { signals, another } = opening;
      const told: string[] = [];
      for (const signal of ['leases', 'shards', 'places'] as const) another.watch(signal, () => told.push(signal));
      const { leases, shards } = signalling(memoryStores(manualClock(0)), signals);
      const toldBy = async (act: () => Promise<unknown>): Promise<string[]> => {
        await arrived(opening);
        told.length = 0;
        await act();
        await arrived(opening);
        return [...told];
      };
      expect(await toldBy(() => leases.openSession(sampleSession('w')))).toEqual(['leases']);
      expect(await toldBy(() => leases.createSlots([{ delivery: 'exactly-once', slot: 0 }]))).toEqual([]);
      expect(await toldBy(() => leases.assign(sampleLease(0), 'w'))).toEqual(['leases']);
      expect(await toldBy(() => leases.assign(sampleLease(0), 'v'))).toEqual([]);
      const held = sampleLease(0, { owner: 'w', epoch: 1 });
      expect(await toldBy(() => leases.ask(held, 'release'))).toEqual(['leases']);
      expect(await toldBy(() => leases.leases('w'))).toEqual([]);
      expect(await toldBy(() => leases.renewSession('w', { rates: {}, wheelLagMs: 0, wheels: 1 }))).toEqual([]);
      expect(await toldBy(() => leases.free(held))).toEqual(['leases']);
      expect(await toldBy(() => leases.endSession('w', null))).toEqual(['leases']);
      expect(await toldBy(() => shards.takePlaces('exactly-once', 1, 10))).toEqual(['places']);
      const shard = { ...sampleShard(1), delivery: 'exactly-once' as const, state: 'new' as const, jobs: 0 };
      expect(await toldBy(() => shards.create([{ ...shard, saturated: false }]))).toEqual(['shards']);
      expect(await toldBy(() => shards.setState(1, 'new', 'open'))).toEqual(['shards']);
      expect(await toldBy(() => shards.takePlaces('exactly-once', 1, 10))).toEqual([]);
    });
  });
}
