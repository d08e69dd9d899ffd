import { randomUUID } from 'node:crypto';
import { LIMITS } from '../src/core/limits.ts';
import type { AllotContext } from '../src/engine/allot/context.ts';
import { Leader } from '../src/engine/allot/leader.ts';
import { LeaseRound } from '../src/engine/allot/lease-round.ts';
import { Mover } from '../src/engine/allot/move.ts';
import { ShardRound } from '../src/engine/allot/shard-round.ts';
import { inOrder, loop, type Service, service } from '../src/runtime/service.ts';

/** Sessions and leases are looked at this often, in ms: a death is seen at most two looks late. */
const LEASES_EVERY_MS = 100;
/** Shards are looked at this often, in ms: a bulk of 50,000 jobs/s places 12,500 meanwhile, about what is always free. */
const SHARDS_EVERY_MS = 250;
/** Jobs of draining shards go a step further this often, in ms. */
const MOVES_EVERY_MS = 500;
/** Leadership is renewed, or watched, this often, in ms. */
const LEAD_EVERY_MS = 250;

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
  const { leases } = context.stores;
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
  const every = (name: string, ms: number, round: () => Promise<unknown>): Service =>
    loop({
      name,
      clock,
      telemetry,
      retryMs: ms,
      retryMaxMs: 500,
      round: async () => {
        await round();
        return ms;
      },
    });
  const renew = async (): Promise<void> => {
    if (await leases.renewSession(incarnation, REPORT)) return;
    telemetry.event('warn', 'this manager was declared dead and goes on as a new one', { incarnation });
    await leader.resign(incarnation);
    await open();
  };
  return inOrder('manager', telemetry, [
    session,
    leadership,
    every('manager-renew', LIMITS.sessionRenewMs, renew),
    every('manager-lead', LEAD_EVERY_MS, () => leader.renew(incarnation)),
    every('manager-leases', LEASES_EVERY_MS, () => leaseRound.run(incarnation)),
    every('manager-shards', SHARDS_EVERY_MS, () => shardRound.run()),
    moves,
    every('manager-moves', MOVES_EVERY_MS, () => mover.run()),
  ]);
}
