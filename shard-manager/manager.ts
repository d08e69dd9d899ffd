import { randomUUID } from 'node:crypto';
import { LIMITS } from '../src/core/limits.ts';
import type { AllotContext } from '../src/engine/allot/context.ts';
import { Leader } from '../src/engine/allot/leader.ts';
import { LeaseRound } from '../src/engine/allot/lease-round.ts';
import { Mover } from '../src/engine/allot/move.ts';
import { ShardRound } from '../src/engine/allot/shard-round.ts';
import { inOrder, loop, type Service, service } from '../src/runtime/service.ts';

/** Pauses after errors in a row, in ms. */
const RETRY_MS = 100;
const RETRY_MAX_MS = 500;

/** How often it is looked for blocks of finished jobs, in ms: what ends together meanwhile is folded together. */
const FOLD_EVERY_MS = 5_000;
/** Between two folds there is a rest of this many times their length: they take a sixth of the job store's time. */
const FOLD_RESTS = 5;

/** Name of this machine and process, for people. */
export interface ManagerOptions {
  host: string;
  pid: number;
}

const REPORT = { rates: {}, wheelLagMs: 0, wheels: 0 };

/**
 * The manager: a session of its own, leadership, and the rounds of leases and shards. Several may run; one leads. A manager
 * whose session was ended by another (it was away for too long) goes on under a new incarnation, as a follower.
 */
export function startManager(context: AllotContext, { host, pid }: ManagerOptions): Service {
  const { telemetry, clock } = context;
  const { leases, jobs } = context.stores;
  let incarnation = '';
  const open = async (): Promise<void> => {
    incarnation = randomUUID();
    const startedMs = clock.wallMs();
    await leases.openSession({ incarnation, role: 'manager', host, pid, startedMs, beat: 0, ...REPORT });
  };
  const session = service('manager-session', telemetry, async () => {
    await open();
    return async () => {
      await leases.endSession(incarnation, null);
    };
  });
  const leader = new Leader(leases, clock, telemetry);
  const leadership = service('manager-leadership', telemetry, async () => () => leader.resign(incarnation));
  const leaseRound = new LeaseRound(context, leader);
  const shardRound = new ShardRound(context, leader, leaseRound);
  const mover = new Mover(context, leader);
  const moves = service('manager-mover', telemetry, async () => () => mover.close());
  /** A round answers how long to wait for the next one, in ms. */
  const every = (name: string, round: () => Promise<number>) =>
    loop({ name, clock, telemetry, retryMs: RETRY_MS, retryMaxMs: RETRY_MAX_MS, round });
  const renew = async (): Promise<number> => {
    if (await leases.renewSession(incarnation, REPORT)) return LIMITS.sessionRenewMs;
    telemetry.event('warn', 'this manager was declared dead and goes on as a new one', { incarnation });
    await leader.resign(incarnation);
    await open();
    return LIMITS.sessionRenewMs;
  };
  const leaseLoop = every('manager-leases', () => leaseRound.run(incarnation));
  const shardLoop = every('manager-shards', () => shardRound.run());
  const moveLoop = every('manager-moves', () => mover.run());
  const fold = async (): Promise<number> => {
    const begunMs = clock.monotonicMs();
    const folded = leader.trusted() ? await jobs.fold() : 0;
    return folded === 0 ? FOLD_EVERY_MS : FOLD_RESTS * (clock.monotonicMs() - begunMs);
  };
  const lead = async (): Promise<number> => {
    const before = leader.trusted();
    const waitMs = await leader.renew(incarnation);
    if (!before && leader.trusted()) for (const one of [leaseLoop, shardLoop, moveLoop]) one.wake();
    return waitMs;
  };
  const signals = service('manager-signals', telemetry, async () => {
    const ends = [
      context.stores.signals.watch('leases', () => {
        leaseRound.leasesChanged();
        leaseLoop.wake();
      }),
      context.stores.signals.watch('places', () => shardLoop.wake()),
      context.stores.signals.watch('shards', () => moveLoop.wake()),
    ];
    return async () => {
      for (const end of ends) end();
    };
  });
  return inOrder('manager', telemetry, [
    session,
    leadership,
    every('manager-renew', renew),
    every('manager-lead', lead),
    leaseLoop,
    shardLoop,
    moves,
    moveLoop,
    every('manager-fold', fold),
    signals,
  ]);
}
