import { LIMITS } from '../../core/limits.ts';
import type { Live } from './entries.ts';

/**
 * Jobs that left, by key, in two halves: when the younger is full the older one goes as a whole. So at least half of
 * `LIMITS.leftEntries` are remembered, and nothing is searched for what is to be forgotten.
 */
export class Left {
  private young = new Map<string, Live>();
  private old = new Map<string, Live>();

  get size(): number {
    return this.young.size + this.old.size;
  }

  remember(key: string, live: Live): void {
    if (this.young.size >= LIMITS.leftEntries / 2) {
      this.old = this.young;
      this.young = new Map();
    }
    this.young.set(key, live);
  }

  recall(key: string): Live | null {
    const live = this.young.get(key) ?? this.old.get(key) ?? null;
    this.young.delete(key);
    this.old.delete(key);
    return live;
  }

  clear(): void {
    this.young.clear();
    this.old.clear();
  }
}
