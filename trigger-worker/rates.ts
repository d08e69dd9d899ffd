import type { Clock } from '../src/ports/clock.ts';
import type { SlotReport } from './wheel.ts';

/** Triggers per second by slot between two reports, from counts that only rise while a slot is held under one epoch. */
export class Rates {
  private readonly clock: Clock;
  private lastMs: number;
  private counts = new Map<string, number>();

  constructor(clock: Clock) {
    this.clock = clock;
    this.lastMs = clock.monotonicMs();
  }

  /** Rates since the last call, named as in `slotName`. */
  of(slots: readonly SlotReport[]): Record<string, number> {
    const nowMs = this.clock.monotonicMs();
    const seconds = Math.max(1, nowMs - this.lastMs) / 1_000;
    const counts = new Map<string, number>();
    const rates: Record<string, number> = {};
    for (const { name, epoch, published } of slots) {
      const key = `${name}/${epoch}`;
      counts.set(key, published);
      // A count below the last one began anew.
      const since = published - Math.min(this.counts.get(key) ?? 0, published);
      rates[name] = Math.round(since / seconds);
    }
    this.lastMs = nowMs;
    this.counts = counts;
    return rates;
  }
}
