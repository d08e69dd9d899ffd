import { randomUUID } from 'node:crypto';
import { LIMITS } from '../src/core/limits.ts';
import { slotName } from '../src/core/topics.ts';
import type { Installation } from '../src/ports/catalog-store.ts';
import type { Clock } from '../src/ports/clock.ts';
import type { Lease } from '../src/ports/lease-store.ts';
import type { Stores } from '../src/ports/stores.ts';
import type { Telemetry } from '../src/ports/telemetry.ts';
import { inOrder, loop, type Service, service } from '../src/runtime/service.ts';
import { Rates } from './rates.ts';
import { ThreadWheel } from './thread-wheel.ts';
import { LocalWheel, type WheelHost } from './wheel.ts';
import { monotonicNs, type ThreadStores } from './wheel-messages.ts';

/** Leases are read when a signal says that they may have changed, when what is held differs from them, and this often, in ms. */
const LEASES_EVERY_MS = 1_000;
/** What is held is compared with the leases as they were read last this often, in ms, which asks nobody. */
const COMPARE_EVERY_MS = 100;
/** A slot that was lost or whose takeover failed is tried again after this long, in ms, if the lease is still there. */
const AGAIN_AFTER_MS = 500;

export interface WorkerContext {
  stores: Stores;
  clock: Clock;
  telemetry: Telemetry;
  installation: Pick<Installation, 'id' | 'slotsPerSet'> & Partial<Pick<Installation, 'lanesPerSlot'>>;
}

export interface WorkerOptions {
  /** Name of this machine and process, for people. */
  host: string;
  pid: number;
  /** Wheel threads; 0: one wheel in this thread, over the stores of the context. */
  wheels: number;
  misfireAfterMs: number;
  /** What the wall clock of the context is off by, in ms: the clocks of the wheel threads are off by as much. */
  clockOffsetMs: number;
  threadStores: ThreadStores;
}

/**
 * The worker: a session that it renews, the leases that name it, and wheels that fire its slots. Stop drains every slot,
 * frees its lease and ends the session, so that others take over at once.
 */
export function startWorker(context: WorkerContext, options: WorkerOptions): Service {
  const worker = new TriggerWorker(context, options);
  const { clock, telemetry } = context;
  const every = (name: string, ms: number, round: () => Promise<void>) =>
    loop({
      name,
      clock,
      telemetry,
      retryMs: 50,
      retryMaxMs: LIMITS.sessionRenewMs,
      round: async () => {
        await round();
        return ms;
      },
    });
  const leases = every('worker-leases', COMPARE_EVERY_MS, () => worker.followLeases());
  return inOrder('worker', telemetry, [
    service('worker-wheels', telemetry, async () => {
      await worker.openWheels();
      return () => worker.closeWheels();
    }),
    service('worker-session', telemetry, async () => {
      await worker.openSession();
      return () => worker.endSession();
    }),
    every('worker-renew', LIMITS.sessionRenewMs, () => worker.renew()),
    service('worker-slots', telemetry, async () => () => worker.drainAll()),
    service('worker-signals', telemetry, async () =>
      ending(
        context.stores.signals.watch('leases', () => {
          worker.leasesChanged();
          leases.wake();
        }),
      ),
    ),
    leases,
  ]);
}

/** The stop of a service that only ends something. */
const ending = (end: () => void) => async (): Promise<void> => end();

/**
 * The worker's state. The session is trusted for `sessionTrustMs` from before its last successful renewal was sent, by this
 * process's monotonic clock. While no renewal succeeds (the lease store may be electing) nothing is dropped, a slot goes on
 * while its own commits succeed; when the store says that the session has ended, everything is dropped at once.
 */
class TriggerWorker {
  private readonly context: WorkerContext;
  private readonly options: WorkerOptions;
  private readonly rates: Rates;
  private wheels: WheelHost[] = [];
  private incarnation = '';
  private trustedUntilMs = Number.NEGATIVE_INFINITY;
  private readonly sharedTrust = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  /** This incarnation's leases by name, as they were read last, and when that was begun, monotonic ms. */
  private leases = new Map<string, Lease>();
  private leasesReadMs = Number.NEGATIVE_INFINITY;
  /** Slots that are being drained, by name. */
  private readonly draining = new Map<string, Promise<void>>();
  /** When a slot may be tried again, monotonic ms. */
  private readonly notBefore = new Map<string, number>();

  constructor(context: WorkerContext, options: WorkerOptions) {
    this.context = context;
    this.options = options;
    this.rates = new Rates(context.clock);
  }

  async openWheels(): Promise<void> {
    const opening = Array.from({ length: Math.max(1, this.options.wheels) }, () => this.openWheel());
    const opened = await Promise.allSettled(opening);
    this.wheels = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const failed = opened.find((one) => one.status === 'rejected');
    if (failed === undefined) return;
    await this.closeWheels();
    throw failed.reason;
  }

  private openWheel(): Promise<WheelHost> {
    const { wheels, threadStores, misfireAfterMs, clockOffsetMs } = this.options;
    const { clock, telemetry, installation } = this.context;
    const commitsPerSecond = LIMITS.commitsPerSecond / Math.max(1, wheels);
    if (wheels === 0) {
      const trusted = (): boolean => clock.monotonicMs() < this.trustedUntilMs;
      return LocalWheel.open({ ...this.context, misfireAfterMs, commitsPerSecond, trusted });
    }
    const { id, slotsPerSet, lanesPerSlot = 1 } = installation;
    const setup = {
      threadStores,
      installation: { id, slotsPerSet, lanesPerSlot },
      misfireAfterMs,
      commitsPerSecond,
      clockOffsetMs,
      trust: this.sharedTrust,
    };
    return ThreadWheel.open(setup, telemetry, (wheel, error) => this.wheelDied(wheel, error));
  }

  /** A thread that dies takes its slots with it: they are others' at once, and a new thread takes its place. */
  private wheelDied(wheel: WheelHost, error: unknown): void {
    const { telemetry } = this.context;
    this.wheels = this.wheels.filter((one) => one !== wheel);
    telemetry.count('wheels_died_total');
    telemetry.event('error', 'a wheel thread died: this worker gives its slots up', { error: String(error) });
    this.loseSession('a wheel died');
    this.replaceWheel().catch((failure: unknown) => {
      telemetry.event('error', 'a wheel thread could not be replaced', { error: String(failure) });
    });
  }

  private async replaceWheel(): Promise<void> {
    await this.context.stores.leases.endSession(this.incarnation, null);
    this.wheels.push(await this.openWheel());
  }

  async closeWheels(): Promise<void> {
    await Promise.all(this.wheels.map((wheel) => wheel.close()));
    this.wheels = [];
  }

  async openSession(): Promise<void> {
    const { leases } = this.context.stores;
    const { host, pid } = this.options;
    this.incarnation = randomUUID();
    this.leases.clear();
    this.leasesChanged();
    const begunMs = this.context.clock.monotonicMs();
    const startedMs = this.context.clock.wallMs();
    const report = { rates: {}, wheelLagMs: 0, wheels: this.wheels.length };
    await leases.openSession({
      incarnation: this.incarnation,
      role: 'worker',
      host,
      pid,
      startedMs,
      beat: 0,
      ...report,
    });
    this.trust(begunMs + LIMITS.sessionTrustMs);
  }

  async endSession(): Promise<void> {
    this.trust(Number.NEGATIVE_INFINITY);
    await this.context.stores.leases.endSession(this.incarnation, null);
  }

  private trust(untilMs: number): void {
    this.trustedUntilMs = untilMs;
    const leftMs = untilMs - this.context.clock.monotonicMs();
    new Float64Array(this.sharedTrust)[0] = monotonicNs() + leftMs * 1e6;
  }

  async renew(): Promise<void> {
    const begunMs = this.context.clock.monotonicMs();
    const reports = this.wheels.map((wheel) => wheel.report());
    const rates = this.rates.of(reports.flatMap(({ slots }) => slots));
    const wheelLagMs = Math.max(0, ...reports.map(({ lagMs }) => lagMs));
    const report = { rates, wheelLagMs, wheels: this.wheels.length };
    if (await this.context.stores.leases.renewSession(this.incarnation, report)) {
      this.trust(begunMs + LIMITS.sessionTrustMs);
      return;
    }
    this.loseSession('the session was declared dead');
    await this.openSession();
  }

  private loseSession(reason: string): void {
    this.trust(Number.NEGATIVE_INFINITY);
    for (const wheel of this.wheels) wheel.drop(reason);
    this.context.telemetry.count('sessions_lost_total');
    this.context.telemetry.event('warn', 'this worker lost its session and goes on as a new one', {
      incarnation: this.incarnation,
      reason,
    });
  }

  /** The leases are to be read before the next comparison. */
  leasesChanged(): void {
    this.leasesReadMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * Starts and ends slots as the leases say. Nothing is begun by what was read a while ago: whoever took a slot over would be
   * fenced by a worker that goes by an old lease.
   */
  async followLeases(): Promise<void> {
    const nowMs = this.context.clock.monotonicMs();
    if (nowMs - this.leasesReadMs < LEASES_EVERY_MS && !this.differs()) return;
    const { incarnation } = this;
    this.leasesReadMs = nowMs;
    try {
      const leases = await this.context.stores.leases.leases(incarnation);
      if (incarnation !== this.incarnation) return;
      this.leases = new Map(leases.map((lease) => [slotName(lease.delivery, lease.slot), lease]));
    } catch (error) {
      this.leasesChanged();
      throw error;
    }
    for (const wheel of this.wheels) {
      for (const { name, epoch } of wheel.report().slots) {
        if (this.leases.get(name)?.epoch !== epoch) wheel.drop('the lease is gone', name);
      }
    }
    for (const [name, lease] of this.leases) {
      if (this.draining.has(name)) continue;
      if (lease.wanted === 'release') this.startDrain(name, lease);
      else if (this.wheelOf(name) === undefined) this.adopt(name, lease);
    }
  }

  /** Whether slots are held without a lease as read last, leased and not held, or asked for and not being drained. */
  private differs(): boolean {
    const held = this.wheels.flatMap((wheel) => wheel.report().slots);
    const names = new Set(held.map(({ name }) => name));
    return (
      held.some(({ name, epoch }) => this.leases.get(name)?.epoch !== epoch) ||
      [...this.leases].some(
        ([name, { wanted }]) => !this.draining.has(name) && (wanted === 'release' || !names.has(name)),
      )
    );
  }

  private wheelOf(name: string): WheelHost | undefined {
    return this.wheels.find((wheel) => wheel.report().slots.some((slot) => slot.name === name));
  }

  private adopt(name: string, lease: Lease): void {
    const nowMs = this.context.clock.monotonicMs();
    if (nowMs < (this.notBefore.get(name) ?? Number.NEGATIVE_INFINITY)) return;
    const [idlest] = [...this.wheels].sort((a, b) => a.report().slots.length - b.report().slots.length);
    if (idlest === undefined) return;
    this.notBefore.set(name, nowMs + AGAIN_AFTER_MS);
    idlest.adopt(lease, this.incarnation);
  }

  private startDrain(name: string, lease: Lease): void {
    const run = async (): Promise<void> => {
      try {
        await this.wheelOf(name)?.drain(name);
        await this.context.stores.leases.free(lease);
      } catch (error) {
        this.context.telemetry.event('error', 'a lease was not given back', { slot: name, error: String(error) });
      } finally {
        this.notBefore.delete(name);
        this.draining.delete(name);
      }
    };
    this.draining.set(name, run());
  }

  /** Before the session ends: every slot is drained and its lease given back. */
  async drainAll(): Promise<void> {
    const leases = await this.context.stores.leases.leases(this.incarnation);
    for (const lease of leases) {
      const name = slotName(lease.delivery, lease.slot);
      if (!this.draining.has(name)) this.startDrain(name, lease);
    }
    await Promise.all(this.draining.values());
  }
}
