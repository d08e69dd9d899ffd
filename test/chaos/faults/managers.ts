import type { Fault } from '../fault.ts';
import { LIMITS } from '../limits.ts';

const AWAY_MS = 60_000;

const killed: Fault = {
  name: 'managers-killed',
  bounds: LIMITS.managersKilled,
  async strike(world) {
    const before = await world.assignments();
    await Promise.all(world.living('manager').map((one) => world.kill(one)));
    await world.long(AWAY_MS);
    const moved = (await world.assignments()) - before;
    await world.whole();
    return moved === 0 ? undefined : { wrong: [`${moved} slots were assigned without a manager`] };
  },
};

export const managerFaults: readonly Fault[] = [killed];
