import { LIMITS } from '../../core/limits.ts';
import type { Clock } from '../../ports/clock.ts';
import type { LeaseStore } from '../../ports/lease-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { ObservedTime } from './observed-time.ts';

/** A leader renews this often, in ms ... */
const RENEW_EVERY_MS = LIMITS.sessionRenewMs;
/** ... and others look for its beat this often, in ms: when it has just risen, and when it stands still. */
const LOOK_EVERY_MS = 400;
const LOOK_CLOSER_MS = 100;
/** A beat that stands still for longer than this, in ms, is more than a renewal that is a little late. */
const STANDING_MS = RENEW_EVERY_MS + LOOK_EVERY_MS + 100;

/** The role that managers lead in. */
export const MANAGERS = 'manager';

/**
 * Leadership among managers. The leader trusts itself for `LIMITS.sessionTrustMs` from before its last successful renewal
 * was sent; another takes over when it saw the leader's beat stand still for `LIMITS.sessionDeadMs`, which is longer. Two
 * leaders could not break anything all the same: every write of theirs is conditional.
 */
export class Leader {
  readonly #leases: LeaseStore;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #time = new ObservedTime();
  #trustedUntilMs = Number.NEGATIVE_INFINITY;
  #leading = false;
  /** The other that leads, and the observed time at which this beat of it was first seen. */
  #other: { term: number; beat: number; sinceMs: number } | null = null;

  constructor(leases: LeaseStore, clock: Clock, telemetry: Telemetry) {
    this.#leases = leases;
    this.#clock = clock;
    this.#telemetry = telemetry;
  }

  /** Whether this manager may act now. */
  trusted(): boolean {
    return this.#clock.monotonicMs() < this.#trustedUntilMs;
  }

  /**
   * Renews the leadership, or takes it when it is free or its holder stood still for too long. Answers how long to wait
   * before the next time, in ms.
   */
  async renew(incarnation: string): Promise<number> {
    const startMs = this.#clock.monotonicMs();
    const expired = this.#other !== null && this.#time.nowMs - this.#other.sinceMs >= LIMITS.sessionDeadMs;
    const seen = this.#other !== null && expired ? { term: this.#other.term, beat: this.#other.beat } : null;
    try {
      const { mine, term, beat } = await this.#leases.lead(MANAGERS, incarnation, seen);
      this.#time.read(startMs, this.#clock.monotonicMs());
      if (mine) this.#other = null;
      else if (this.#other?.term !== term || this.#other.beat !== beat) {
        this.#other = { term, beat, sinceMs: this.#time.nowMs };
      }
      this.#trustedUntilMs = mine ? startMs + LIMITS.sessionTrustMs : Number.NEGATIVE_INFINITY;
      this.#tell(mine);
      if (mine) return RENEW_EVERY_MS;
      return this.#time.nowMs - this.#other!.sinceMs > STANDING_MS ? LOOK_CLOSER_MS : LOOK_EVERY_MS;
    } catch (error) {
      this.#time.failed();
      if (!this.trusted()) this.#tell(false);
      throw error;
    }
  }

  async resign(incarnation: string): Promise<void> {
    const leading = this.#leading;
    this.#trustedUntilMs = Number.NEGATIVE_INFINITY;
    this.#tell(false);
    if (leading) await this.#leases.resign(MANAGERS, incarnation);
  }

  #tell(leading: boolean): void {
    if (leading !== this.#leading) {
      this.#telemetry.event('info', leading ? 'this manager leads now' : 'this manager leads no more');
    }
    this.#leading = leading;
    this.#telemetry.gauge('manager_leading', leading ? 1 : 0);
  }
}
