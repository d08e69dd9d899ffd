import { memoryTriggerStore } from '../../../src/adapters/memory/trigger-store.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { AddResult, Claimed, TriggerStore } from '../../../src/ports/trigger-store.ts';

type Method = (...args: never[]) => Promise<unknown>;

/** Calls that change something: what they did is in an old copy of the store, when that was made after them. */
const CHANGING = new Set(['add', 'claim', 'scan', 'writeBack', 'reset', 'restore', 'removeFinished', 'sweep', 'drop']);

/**
 * A trigger store in memory that can lose everything, or go back to a copy of itself as it was some calls ago, at once or
 * before the n-th call from now. Going back comes with a new connection, as it does with a real server; a flush does not.
 */
export class LosingTriggers {
  readonly store: TriggerStore;
  losses = 0;
  private readonly clock: Clock;
  private inner: TriggerStore;
  private journal: { name: string; args: unknown[] }[] = [];
  private connections = 1;
  private doubtedUntilMs = Number.NEGATIVE_INFINITY;
  private pending: { calls: number; lose: () => Promise<void> } | null = null;

  constructor(clock: Clock) {
    this.clock = clock;
    this.inner = memoryTriggerStore(clock);
    this.store = new Proxy({} as TriggerStore, {
      get: (_, name: string) => {
        if (name === 'connections') return () => this.connections;
        return (...args: unknown[]) => this.call(name, args);
      },
    });
  }

  private async call(name: string, args: unknown[]): Promise<unknown> {
    const { pending } = this;
    if (pending !== null) {
      pending.calls -= 1;
      if (pending.calls < 0) {
        this.pending = null;
        await pending.lose();
      }
    }
    if (CHANGING.has(name)) this.journal.push({ name, args: structuredClone(args) });
    const answer = await (this.inner[name as keyof TriggerStore] as Method)(...(args as never[]));
    if (name === 'claim') return { ...(answer as Claimed), lineage: `connection ${this.connections}` };
    if (name !== 'add' || this.clock.monotonicMs() > this.doubtedUntilMs) return answer;
    return (answer as AddResult[]).map((result) => ({ ...result, reachesOwner: true }));
  }

  /** What is still to happen happens now. */
  async settle(): Promise<void> {
    const { pending } = this;
    this.pending = null;
    await pending?.lose();
  }

  flush(afterCalls = 0): void {
    this.pending = {
      calls: afterCalls,
      lose: async () => {
        this.losses += 1;
        this.inner = memoryTriggerStore(this.clock);
        this.journal = [];
      },
    };
  }

  /** To the state before the last `calls` changes. */
  goBack(calls: number, afterCalls = 0): void {
    this.pending = {
      calls: afterCalls,
      lose: async () => {
        this.losses += 1;
        this.connections += 1;
        this.doubtedUntilMs = this.clock.monotonicMs() + 30_000;
        this.journal = this.journal.slice(0, Math.max(0, this.journal.length - calls));
        this.inner = memoryTriggerStore(this.clock);
        for (const { name, args } of this.journal) {
          await (this.inner[name as keyof TriggerStore] as Method)(...(structuredClone(args) as never[]));
        }
      },
    };
  }
}
