import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import type { Random } from './random.ts';
import type { VirtualTime } from './virtual-time.ts';

/**
 * What the product takes from Node beside its ports and that would make two runs of a seed differ: random names, and the turn
 * that a loop gives to others, which becomes a step of the simulated time. For the whole process, one simulation at a time.
 */
export function takeOver(random: Random, time: VirtualTime): void {
  crypto.randomUUID = () => random.uuid();
  timers.setImmediate = <T>(value?: T): Promise<T> =>
    new Promise<T>((resolve) => time.after(0, () => resolve(value as T)));
  syncBuiltinESMExports();
}
