import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from '../fault.ts';
import { UNTABLED } from '../limits.ts';
import type { World } from '../world.ts';

const SPAN_MS = 10_000;
const DELAY_MS = 200;

/** A worker whose way to all servers is through proxies, with slots. */
async function farWorker(world: World): Promise<void> {
  const far = world.living('worker').find((one) => world.isFar(one)) ?? (await world.startFar());
  await world.untilOwns(far);
}

const slow: Fault = {
  name: 'network-slow',
  bounds: UNTABLED,
  async strike(world) {
    await farWorker(world);
    world.stroke(`each piece takes ${DELAY_MS} ms longer between a worker and the servers`);
    for (const proxy of world.proxies) proxy.slow(DELAY_MS);
    await sleep(SPAN_MS);
    for (const proxy of world.proxies) proxy.slow(0);
    await world.whole();
    return undefined;
  },
};

const cut: Fault = {
  name: 'network-cut',
  bounds: UNTABLED,
  async strike(world) {
    await farWorker(world);
    world.stroke('nothing comes through between a worker and the servers');
    for (const proxy of world.proxies) proxy.cut();
    await sleep(SPAN_MS);
    for (const proxy of world.proxies) proxy.mend();
    await world.whole();
    return undefined;
  },
};

export const networkFaults: readonly Fault[] = [slow, cut];
