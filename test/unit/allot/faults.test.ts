import fc from 'fast-check';
import { expect, it } from 'vitest';
import { installation, type Manager, type Worker } from './installation.ts';

/** What happens to an installation, and how long it is left alone afterwards, in ms. */
const step = fc.record({
  what: fc.constantFrom(
    'join' as const,
    'kill' as const,
    'leave' as const,
    'cut worker' as const,
    'mend worker' as const,
    'cut manager' as const,
    'mend manager' as const,
    'join manager' as const,
    'outage' as const,
    'outage over' as const,
    'nothing' as const,
  ),
  which: fc.nat(),
  waitMs: fc.integer({ min: 0, max: 4_000 }),
});

it('through any faults no slot has two owners that trust themselves; when they are over all slots are owned and shared', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), fc.constantFrom(0, 30, 120), async (steps, latencyMs) => {
      const all = installation();
      const { clock } = all;
      const managers: Manager[] = [await all.manager(), await all.manager()];
      const workers: Worker[] = [await all.worker('W0')];
      let named = 1;
      all.setLatency(latencyMs);
      const join = async (): Promise<void> => {
        if (workers.length < 6) workers.push(await started(all.worker(`W${named++}`), clock));
      };
      for (const { what, which, waitMs } of steps) {
        const worker = workers[which % workers.length];
        const manager = managers[which % managers.length];
        // Nobody can join, and nobody leaves in order, while the store is away.
        if (what === 'outage') all.setOutage('refused');
        if (what === 'outage over') all.setOutage('up');
        if (what === 'kill') worker?.kill();
        if (what === 'cut worker') worker?.cut('refused');
        if (what === 'mend worker') worker?.cut('up');
        if (what === 'cut manager') manager?.cut('refused');
        if (what === 'mend manager') manager?.cut('up');
        if (what === 'join' && all.reachable()) await join();
        if (what === 'join manager' && all.reachable() && managers.length < 4) {
          managers.push(await started(all.manager(), clock));
        }
        if (what === 'leave' && worker !== undefined) void worker.leave().catch(() => {});
        await clock.advance(waitMs);
      }
      all.setOutage('up');
      for (const manager of managers) manager.cut('up');
      for (const worker of workers) worker.cut('up');
      await started(all.worker('last'), clock);
      await clock.advance(60_000);

      expect(all.violations).toEqual([]);
      const living = (await all.stores.leases.sessions()).filter(({ role }) => role === 'worker');
      const shares = await all.shares();
      expect(Object.keys(shares).sort()).toEqual(living.map(({ incarnation }) => incarnation).sort());
      expect(Math.max(...Object.values(shares)) - Math.min(...Object.values(shares))).toBeLessThanOrEqual(1);
      const epochs = Map.groupBy(all.assigned, ({ slot }) => slot);
      for (const list of epochs.values()) expect(list.map(({ epoch }) => epoch)).toEqual(list.map((_, n) => n + 1));
      const settled = all.assigned.length;
      await clock.advance(30_000);
      expect(all.assigned).toHaveLength(settled);
    }),
    { numRuns: 60 },
  );
}, 120_000);

/** Lets time pass until something has started: its calls take time of the same clock. */
async function started<T>(starting: Promise<T>, clock: { advance(ms: number): Promise<void> }): Promise<T> {
  let done = false;
  const settle = (): void => {
    done = true;
  };
  starting.then(settle, settle);
  while (!done) await clock.advance(10);
  return starting;
}
