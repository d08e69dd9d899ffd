import type { Signal, Signals } from '../../ports/signals.ts';
import { Watchers } from './watchers.ts';

/** Signals within one thread. */
export function localSignals(): Signals {
  const watchers = new Watchers();
  return {
    raise: (signal: Signal) => watchers.tell([signal]),
    watch: (signal: Signal, told: () => void) => watchers.watch([signal], told),
  };
}
