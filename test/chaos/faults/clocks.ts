import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from '../fault.ts';
import { UNTABLED } from '../limits.ts';

const SPAN_MS = 10_000;
const MINUTE_MS = 60_000;

/** A worker's wall clock jumps, and jumps back: nothing may be early by true time. */
function stepped(name: string, stepMs: number): Fault {
  return {
    name,
    bounds: UNTABLED,
    async strike(world) {
      const victim = world.pick(world.living('worker'));
      world.stroke(`the clock of worker ${victim.identity.pid} jumps by ${stepMs / 1_000} s`);
      world.stepClock(victim, stepMs);
      await sleep(SPAN_MS);
      world.stepClock(victim, 0);
      await world.whole();
      return undefined;
    },
  };
}

export const clockFaults: readonly Fault[] = [
  stepped('clock-forward-1h', 60 * MINUTE_MS),
  stepped('clock-back-1h', -60 * MINUTE_MS),
  stepped('clock-forward-5min', 5 * MINUTE_MS),
  stepped('clock-back-5min', -5 * MINUTE_MS),
];
