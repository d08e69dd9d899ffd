import type { Installation } from '../src/ports/catalog-store.ts';
import type { Clock, OtherClock } from '../src/ports/clock.ts';
import type { Lease } from '../src/ports/lease-store.ts';
import type { Stores } from '../src/ports/stores.ts';
import type { Telemetry } from '../src/ports/telemetry.ts';
import type { WheelHost } from './wheel.ts';

/** How a wheel thread opens stores of its own: the URL of a module that exports `open`, and what to give it. */
export interface ThreadStores {
  module: string;
  /** Plain data: it is sent to the thread as a message. */
  config: unknown;
}

export interface StoresModule {
  /** `otherClocks`: those of the machines that the stores are on; absent where they are on this one. */
  open(config: unknown, telemetry: Telemetry, clock: Clock): Promise<Stores & { otherClocks?: readonly OtherClock[] }>;
}

/** What a wheel thread is started with. */
export interface WheelSetup {
  threadStores: ThreadStores;
  installation: Pick<Installation, 'id' | 'slotsPerSet'> & Partial<Pick<Installation, 'lanesPerSlot'>>;
  misfireAfterMs: number;
  commitsPerSecond: number;
  /** What the wall clock is off by, in ms. */
  clockOffsetMs: number;
  /** One float: the instant up to which the session is trusted, by `monotonicNs`. */
  trust: SharedArrayBuffer;
}

export type ToWheel =
  | { wheel: 'adopt'; id: number; lease: Lease; incarnation: string }
  | { wheel: 'drain'; id: number; slot: string }
  | { wheel: 'drop'; reason: string; slot?: string }
  | { wheel: 'close' };

export type FromWheel =
  | { wheel: 'ready' }
  /** `adopted`: the last `adopt` that the report knows of. */
  | { wheel: 'report'; report: ReturnType<WheelHost['report']>; adopted: number }
  | { wheel: 'drained'; id: number }
  | { wheel: 'closed' };

/** Monotonic time that all threads of a process share (`performance.now` begins anew in each), in ns as a plain number. */
export function monotonicNs(): number {
  const [seconds, ns] = process.hrtime();
  return seconds * 1e9 + ns;
}
