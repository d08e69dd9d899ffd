import type { BusReader } from '../../src/ports/bus.ts';
import { type Clock, sleepBy } from '../../src/ports/clock.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { steadyClock } from '../../src/runtime/steady-clock.ts';
import type { TimerOwner, VirtualTime } from './virtual-time.ts';

export type Role = 'worker' | 'manager' | 'api';

/** A crash that waits for a call: the process dies before it is made, when it has been sent, or before its answer is seen. */
export interface ArmedCrash {
  /** How many calls go well before. */
  calls: number;
  when: 'before' | 'sent' | 'after';
  /** Only calls of this name count; null: all. */
  method: string | null;
}

export interface ProcessOptions {
  name: string;
  role: Role;
  pid: number;
  /** What its wall clock is ahead, in ms. */
  skewMs: number;
  startMs: number;
  time: VirtualTime;
  /** How long a wait of so many ms may last: a machine has other things to do. */
  stretch(ms: number, process: SimProcess): number;
  died(process: SimProcess, reason: string): void;
}

/** One life of a process. When it dies its timers never run, its calls never come back, and nothing of it goes on. */
export class SimProcess implements TimerOwner {
  readonly name: string;
  readonly role: Role;
  readonly pid: number;
  readonly skewMs: number;
  readonly clock: Clock;
  dead = false;
  /** What somebody has set its wall clock ahead by, beside its skew, in ms. */
  jumpMs = 0;
  frozenUntilMs = 0;
  armed: ArmedCrash | null = null;
  /** When something falls due next by its clock, as it was worked out after so many changes of jobs. */
  due = { atMs: 0, changes: -1 };
  /** True time from before the last renewal, or own commit by lane, that succeeded. */
  renewedMs = Number.NEGATIVE_INFINITY;
  readonly committedMs = new Map<string, number>();
  readonly readers = new Set<BusReader>();
  /** Its places in groups, out of which it may be thrown for a while. */
  readonly groups: { throwOut(again: Promise<void> | null): void }[] = [];
  /** Called when it dies: groups lose the member. */
  readonly atDeath: (() => void)[] = [];
  readonly #options: ProcessOptions;

  constructor(options: ProcessOptions) {
    const { name, role, pid, skewMs, startMs, time, stretch } = options;
    this.#options = options;
    this.name = name;
    this.role = role;
    this.pid = pid;
    this.skewMs = skewMs;
    const after: Clock['after'] = (ms, run) => time.after(ms, run, this, stretch(ms, this));
    const machine: Clock = {
      wallMs: () => startMs + time.nowMs + skewMs + this.jumpMs,
      // Monotonic clocks of two machines have nothing in common.
      monotonicMs: () => time.nowMs + pid * 1_000,
      after,
      sleep: sleepBy(after),
    };
    this.clock = steadyClock(machine, [async () => startMs + time.nowMs], silentTelemetry);
  }

  crash(reason: string): void {
    if (this.dead) return;
    this.dead = true;
    for (const reader of this.readers) void reader.close();
    for (const run of this.atDeath) run();
    this.#options.died(this, reason);
  }

  /** What an armed crash does at this call. */
  crashAt(method: string): ArmedCrash['when'] | null {
    const { armed } = this;
    if (armed === null || (armed.method !== null && armed.method !== method)) return null;
    if (armed.calls > 0) {
      armed.calls -= 1;
      return null;
    }
    this.armed = null;
    return armed.when;
  }

  /** Ends when the process may go on: at once, when it is thawed, or never. */
  async running(): Promise<void> {
    const { time } = this.#options;
    while (this.frozenUntilMs > time.nowMs && !this.dead) await time.wait(this.frozenUntilMs - time.nowMs);
    if (this.dead) await never();
  }
}

export function never(): Promise<never> {
  return new Promise(() => {});
}
