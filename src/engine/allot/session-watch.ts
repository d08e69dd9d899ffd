import { LIMITS } from '../../core/limits.ts';
import type { Session } from '../../ports/lease-store.ts';
import { ObservedTime } from './observed-time.ts';

export interface Verdict {
  /** Sessions whose beat stood still for `LIMITS.sessionDeadMs` of observed time: to be declared dead. */
  dead: Session[];
  /** Processes that would be dead, had not too many stood still at once: how many, when that has just been seen. */
  withheld: number;
}

interface Watched {
  beat: number;
  /** Observed time at which this beat was first seen. */
  sinceMs: number;
  /** It stood still together with too many others once, and has had another period since. */
  reprieved: boolean;
}

/** Standing still for longer than this, in ms of observed time, is no more a renewal that is a little late. */
const SUSPECT_MS = LIMITS.sessionDeadMs - LIMITS.sessionRenewMs;

/** ... and this long, in ms, is reason to look more often: sessions are seen up to a calm look after their renewal. */
const STANDING_MS = LIMITS.sessionRenewMs + 500;

/**
 * Tells dead sessions from a store in trouble. Beats of processes that lose their store stop one after the other within one
 * renewal period, so those that will be dead within that period are counted with the dead. When these are more than one
 * process and more than a third of all, the store is suspected: nobody is declared dead, and each of them gets one further
 * whole period of observation. A process counts once, however many sessions (roles) it has.
 */
export class SessionWatch {
  readonly #time = new ObservedTime();
  #watched = new Map<string, Watched>();

  /** Whether a session stands still for longer than a renewal that is a little late, and may soon be dead. */
  get suspects(): boolean {
    const now = this.#time.nowMs;
    for (const { sinceMs } of this.#watched.values()) if (now - sinceMs > STANDING_MS) return true;
    return false;
  }

  failed(): void {
    this.#time.failed();
  }

  /** Takes in one picture of all living sessions, read between two monotonic times. */
  observe(sessions: readonly Session[], startMs: number, endMs: number): Verdict {
    this.#time.read(startMs, endMs);
    const now = this.#time.nowMs;
    const next = new Map<string, Watched>();
    for (const { incarnation, beat } of sessions) {
      const before = this.#watched.get(incarnation);
      next.set(incarnation, before?.beat === beat ? before : { beat, sinceMs: now, reprieved: false });
    }
    this.#watched = next;

    const standing = (ms: number): Session[] => sessions.filter((one) => now - this.#of(one).sinceMs >= ms);
    const dead = standing(LIMITS.sessionDeadMs);
    const unseen = dead.filter((one) => !this.#of(one).reprieved);
    if (unseen.length === 0) return { dead, withheld: 0 };
    const suspects = standing(SUSPECT_MS).filter((one) => !this.#of(one).reprieved);
    const suspected = processes(suspects);
    if (suspected <= 1 || suspected * 3 <= processes(sessions)) return { dead, withheld: 0 };
    for (const one of suspects) Object.assign(this.#of(one), { sinceMs: now, reprieved: true });
    return { dead: dead.filter((one) => !suspects.includes(one)), withheld: suspected };
  }

  #of(session: Session): Watched {
    return this.#watched.get(session.incarnation)!;
  }
}

function processes(sessions: readonly Session[]): number {
  return new Set(sessions.map(({ host, pid }) => `${host}/${pid}`)).size;
}
