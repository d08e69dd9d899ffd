import { kafkaLeaders } from '../../../deploy/local/leaders.ts';
import { killMember, startMember } from '../../../deploy/local/members.ts';
import type { Fault } from '../fault.ts';
import { LIMITS } from '../limits.ts';
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

export const kafkaFaults: readonly Fault[] = [leaderKilled];
