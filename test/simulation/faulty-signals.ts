import type { Signals } from '../../src/ports/signals.ts';
import type { Faults } from './faults.ts';
import type { SimProcess } from './process.ts';
import type { Random } from './random.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Signals as one process has them: they take time, and may be lost on the way there and back. */
export function faultySignals(
  signals: Signals,
  process: SimProcess,
  { faults, time, random }: { faults: Faults; time: VirtualTime; random: Random },
): Signals {
  const lost = (): boolean => faults.isOff(process, 'redis') || random.chance(0.02 + faults.failing);
  return {
    raise(signal) {
      if (!process.dead && !lost()) time.after(random.int(0, 3), () => signals.raise(signal));
    },
    watch: (signal, told) =>
      signals.watch(signal, () => {
        if (!process.dead && !lost()) time.after(0, told, process);
      }),
  };
}
