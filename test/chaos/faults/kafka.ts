import { setTimeout as sleep } from 'node:timers/promises';
import { kafkaLeaders } from '../../../deploy/local/leaders.ts';
import { freezeMember, killMember, startMember, thawMember } from '../../../deploy/local/members.ts';
import type { Fault } from '../fault.ts';
import { LIMITS } from '../limits.ts';
import { stepped } from '../tally.ts';
import { TENANT_TOPIC, tenantOf } from '../tenant.ts';
import { TOPIC } from '../world.ts';

const leaderKilled: Fault = {
  name: 'kafka-leader-killed',
  bounds: LIMITS.kafkaLeaderKilled,
  async strike(world) {
    const name = world.pick((await kafkaLeaders(world.which, TOPIC)).filter((leader) => leader !== null));
    world.stroke(`kill -9 of ${name}`);
    await killMember(world.which, name);
    await world.until('every partition has another leader', async () => {
      const leaders = await kafkaLeaders(world.which, TOPIC);
      return leaders.every((leader) => leader !== null && leader !== name);
    });
    const addedMs = Date.now() - world.struckMs;
    await startMember(world.which, name);
    await world.whole();
    return { addedMs, notes: [`${addedMs} ms without a leader`] };
  },
};

/** Shorter than the 3 s after which the others replace a silent broker, ms. */
const SLOW_MS = 2_800;
const SETTLED_MS = 3_000;
const LOST_AFTER_MS = 60_000;

/** A broker that leads partitions of one tenant answers late: what another tenant has on other brokers must not wait for it. */
const leaderSlowed: Fault = {
  name: 'kafka-leader-slowed',
  bounds: LIMITS.leaderSlowed,
  async strike(world) {
    const reading = await tenantOf(world);
    const others = await kafkaLeaders(world.which, TENANT_TOPIC);
    const [name] = (await kafkaLeaders(world.which, TOPIC)).filter((leader) => !others.includes(leader));
    if (name === undefined || name === null) throw new Error('no broker leads for one tenant alone');
    await sleep(SETTLED_MS);
    const fromMs = stepped(Date.now());
    world.stroke(`SIGSTOP to ${name} for ${SLOW_MS} ms`);
    freezeMember(world.which, name);
    await sleep(SLOW_MS);
    thawMember(world.which, name);
    await sleep(SETTLED_MS);
    const instead = await reading.complete(fromMs, stepped(Date.now()), LOST_AFTER_MS);
    await world.whole();
    return { instead };
  },
};

export const kafkaFaults: readonly Fault[] = [leaderKilled, leaderSlowed];
