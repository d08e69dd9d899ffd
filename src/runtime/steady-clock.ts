import { LIMITS } from '../core/limits.ts';
import type { Clock, OtherClock } from '../ports/clock.ts';
import type { Telemetry } from '../ports/telemetry.ts';

/** Wall against monotonic time may step so far without being asked about, in ms: what NTP mends by itself. */
const STEP_MS = 250;
/** While the wall clock differs, others are asked this often, in ms. */
const ASK_EVERY_MS = 1_000;
/** Samples of another clock: the quickest counts. */
const SAMPLES = 3;

/**
 * A wall clock that takes no jump on trust. Triggers must not be early because somebody set a machine's clock, and time goes on
 * by the monotonic clock all the same; so after a jump of more than 250 ms it goes on from where it was, and asks the clocks of
 * other machines. Where more of them agree with the jump than with what went before (a machine that was suspended, whose
 * monotonic clock stood), it is believed; else this clock holds, and tells so, until the wall clock has come back. Where nobody
 * answers it holds: late is better than early. Without any other clock (one process on one machine) the wall clock counts.
 *
 * Example: the wall clock jumps from 12:00:05 to 13:00:05. MongoDB says 12:00:05.2, Redis 12:00:05.1: it is 12:00:05 here.
 */
export function steadyClock(clock: Clock, others: readonly OtherClock[], telemetry: Telemetry): Clock {
  if (others.length === 0) return clock;
  const steady = new Steady(clock, others, telemetry);
  return { ...clock, wallMs: () => steady.wallMs() };
}

class Steady {
  readonly #clock: Clock;
  readonly #others: readonly OtherClock[];
  readonly #telemetry: Telemetry;
  /** Wall time less monotonic time, as believed, in ms. */
  #aheadMs: number;
  #asking = false;
  /** When the others may be asked again, monotonic ms. */
  #askMs = Number.NEGATIVE_INFINITY;
  #told = false;

  constructor(clock: Clock, others: readonly OtherClock[], telemetry: Telemetry) {
    this.#clock = clock;
    this.#others = others;
    this.#telemetry = telemetry;
    this.#aheadMs = clock.wallMs() - clock.monotonicMs();
  }

  wallMs(): number {
    const wallMs = this.#clock.wallMs();
    const monotonicMs = this.#clock.monotonicMs();
    const aheadMs = wallMs - monotonicMs;
    if (Math.abs(aheadMs - this.#aheadMs) <= STEP_MS) {
      this.#aheadMs = aheadMs;
      this.#told = false;
      return wallMs;
    }
    // Whoever reads the clock drives it: a timer would keep a process alive that wants to end.
    if (!this.#asking && monotonicMs >= this.#askMs) void this.#ask();
    return Math.floor(this.#aheadMs + monotonicMs);
  }

  async #ask(): Promise<void> {
    this.#asking = true;
    const jumpMs = this.#jumpMs();
    const votes = await Promise.all(this.#others.map((other) => this.#vote(other)));
    this.#asking = false;
    this.#askMs = this.#clock.monotonicMs() + ASK_EVERY_MS;
    // It may have come back meanwhile, or gone elsewhere.
    if (Math.abs(this.#jumpMs() - jumpMs) > STEP_MS) return;
    const fields = { jumpMs: Math.round(jumpMs) };
    if (votes.reduce((sum, vote) => sum + vote, 0) > 0) {
      this.#aheadMs += this.#jumpMs();
      this.#telemetry.count('clock_jumps_total', { result: 'believed' });
      this.#telemetry.event('warn', 'the wall clock jumped, and the clocks of other machines agree', fields);
    } else if (!this.#told) {
      this.#told = true;
      this.#telemetry.count('clock_jumps_total', { result: 'held' });
      const text = 'the wall clock jumped and no other machine agrees: time goes on as before; synchronise it (NTP)';
      this.#telemetry.event('error', text, fields);
    }
  }

  #jumpMs(): number {
    return this.#clock.wallMs() - this.#clock.monotonicMs() - this.#aheadMs;
  }

  /** 1: another clock agrees with the wall clock; -1: with what is believed; 0: with both, or neither, or it does not answer. */
  async #vote(other: OtherClock): Promise<number> {
    let best = { roundTripMs: Number.POSITIVE_INFINITY, aheadMs: 0 };
    try {
      for (let sample = 0; sample < SAMPLES; sample += 1) {
        const askedMs = this.#clock.monotonicMs();
        const otherMs = await other();
        const roundTripMs = this.#clock.monotonicMs() - askedMs;
        if (roundTripMs < best.roundTripMs) best = { roundTripMs, aheadMs: otherMs - (askedMs + roundTripMs / 2) };
      }
    } catch {
      return 0;
    }
    const near = (aheadMs: number): number =>
      Math.abs(best.aheadMs - aheadMs) - best.roundTripMs / 2 <= LIMITS.clockSkewMs ? 1 : 0;
    return near(this.#clock.wallMs() - this.#clock.monotonicMs()) - near(this.#aheadMs);
  }
}
