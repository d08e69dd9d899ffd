import { mongodbPrimary } from '../../../deploy/local/leaders.ts';
import { killMember, startMember } from '../../../deploy/local/members.ts';
import type { Fault } from '../fault.ts';
import { LIMITS } from '../limits.ts';
import type { World } from '../world.ts';

const AWAY_MS = 30_000;
const MEMBERS = ['mongodb-1', 'mongodb-2', 'mongodb-3'];

/** Assignments since then, as a sentence if there were any. */
async function moves(world: World, before: number): Promise<{ wrong: string[] } | undefined> {
  const moved = (await world.assignments()) - before;
  return moved === 0 ? undefined : { wrong: [`${moved} leases moved`] };
}

const primaryKilled: Fault = {
  name: 'mongodb-primary-killed',
  bounds: LIMITS.mongodbAway,
  async strike(world) {
    const before = await world.assignments();
    const name = await mongodbPrimary(world.which);
    world.stroke(`kill -9 of ${name}`);
    await killMember(world.which, name);
    await world.until('there is a new primary', async () => (await mongodbPrimary(world.which)) !== name);
    await startMember(world.which, name);
    const told = await moves(world, before);
    await world.whole();
    return told;
  },
};

const allAway: Fault = {
  name: 'mongodb-away',
  bounds: LIMITS.mongodbAway,
  async strike(world) {
    const before = await world.assignments();
    world.stroke('kill -9 of all members');
    await Promise.all(MEMBERS.map((name) => killMember(world.which, name)));
    await world.long(AWAY_MS);
    await Promise.all(MEMBERS.map((name) => startMember(world.which, name)));
    await world.until('there is a primary', async () => (await mongodbPrimary(world.which)) !== '');
    const told = await moves(world, before);
    await world.whole();
    return told;
  },
};

export const mongodbFaults: readonly Fault[] = [primaryKilled, allAway];
