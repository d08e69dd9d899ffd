import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterProcess } from '../../../deploy/local/cluster.ts';
import type { Fault } from '../fault.ts';
import { LIMITS } from '../limits.ts';
import type { World } from '../world.ts';

const FROZEN_MS = 10_000;

/** Ends when no slot is the process's any more. */
async function untilReplaced(world: World, gone: string | null): Promise<void> {
  await world.until('the slots of the dead worker have another owner', async () => {
    const owners = await world.owners();
    return !owners.has(gone) && !owners.has(null);
  });
}

const killed: Fault = {
  name: 'worker-killed',
  bounds: LIMITS.workerKilled,
  async strike(world) {
    const victim = world.pick(world.living('worker'));
    const gone = await world.incarnationOf(victim);
    await world.kill(victim);
    await untilReplaced(world, gone);
    await world.whole();
    return undefined;
  },
};

const stopped: Fault = {
  name: 'worker-stopped',
  bounds: LIMITS.moved,
  async strike(world) {
    await world.end(world.pick(world.living('worker')));
    await world.whole();
    return undefined;
  },
};

const rolling: Fault = {
  name: 'rolling-restart',
  bounds: LIMITS.moved,
  async strike(world) {
    const old = [...world.living('worker'), ...world.living('manager')];
    for (const one of old) {
      // The new one is there before the old one goes, as a deployment does it.
      const fresh = await world.start(one.role);
      if (one.role === 'worker') await world.untilOwns(fresh);
      await world.end(one);
    }
    await world.whole();
    return undefined;
  },
};

const frozen: Fault = {
  name: 'worker-frozen',
  bounds: LIMITS.frozen,
  async strike(world) {
    const victim = world.pick(world.living('worker'));
    world.freeze(victim);
    await sleep(FROZEN_MS);
    world.thaw(victim);
    await endsOrGoesOn(world, victim);
    await world.whole();
    return undefined;
  },
};

/** A worker that was given up while it stood still ends by itself, or begins a new life: both will do. */
async function endsOrGoesOn(world: World, worker: ClusterProcess): Promise<void> {
  await world.until('the worker that was frozen ended or has a session', async () => {
    return !world.living('worker').includes(worker) || (await world.incarnationOf(worker)) !== null;
  });
}

const killedEarly: Fault = {
  name: 'worker-killed-at-takeover',
  bounds: LIMITS.ownerKilled,
  async strike(world) {
    // A third worker gets slots; the moment it has one, its clock of at most a second begins.
    const fresh = await world.start('worker');
    await world.untilOwns(fresh);
    await sleep(world.random() * 1_000);
    const gone = await world.incarnationOf(fresh);
    await world.kill(fresh);
    await untilReplaced(world, gone);
    await world.whole();
    return undefined;
  },
};

const zombie: Fault = {
  name: 'owner-frozen-heir-killed',
  bounds: LIMITS.ownerKilled,
  async strike(world) {
    const [old, heir] = world.random() < 0.5 ? world.living('worker') : world.living('worker').reverse();
    const [oldName, heirName] = [await world.incarnationOf(old!), await world.incarnationOf(heir!)];
    // A third one takes over when both are gone.
    const third = await world.start('worker');
    await world.untilOwns(third);
    world.freeze(old!);
    await untilReplaced(world, oldName);
    await world.kill(heir!);
    await sleep(world.random() * 1_000);
    world.thaw(old!);
    await untilReplaced(world, heirName);
    await endsOrGoesOn(world, old!);
    await world.whole();
    return undefined;
  },
};

export const workerFaults: readonly Fault[] = [killed, stopped, rolling, frozen, killedEarly, zombie];
