/**
 * Single processes of an instance, by name (`redis-2`, `kafka`): killed, started again, frozen. What becomes of the others
 * meanwhile is what a test wants to see, so nothing else is touched.
 */

import { join } from 'node:path';
import { download } from './download.ts';
import {
  instanceFolder,
  KINDS,
  lockInstance,
  ROOT,
  type ServerProcess,
  type StartOptions,
  serverProcesses,
} from './instance.ts';
import { launchMember } from './launch.ts';
import { signalProcess, stopProcess } from './process.ts';
import type { ServerKind } from './server.ts';
import type { ServerName } from './settings.ts';

type Which = Pick<StartOptions, 'name' | 'dir'>;

/** Ends a process with SIGKILL and returns when it is gone; its data and its ports stay its own. */
export async function killMember(which: Which, name: string): Promise<void> {
  await stopProcess(processOf(which, name).process, 0);
}

/** Starts a process that was killed, on its former ports, and returns when it has its part of the work again. */
export async function startMember(which: Which, name: string): Promise<void> {
  const { server } = processOf(which, name);
  const dir = instanceFolder(which);
  await using _held = await lockInstance(dir);
  const dist = await download(join(ROOT, 'dist'), server, () => {});
  await launchMember(KINDS[server] as ServerKind<ServerName>, dist, dir, name);
}

/** SIGSTOP: the process lives, keeps its connections, and does nothing. */
export function freezeMember(which: Which, name: string): void {
  signalProcess(processOf(which, name).process, 'SIGSTOP');
}

/** SIGCONT: a frozen process goes on as if nothing had been. */
export function thawMember(which: Which, name: string): void {
  signalProcess(processOf(which, name).process, 'SIGCONT');
}

function processOf(which: Which, name: string): ServerProcess {
  const all = serverProcesses(which);
  const found = all.find((one) => one.name === name);
  if (found) return found;
  throw new Error(`this instance has no process ${name}; it has ${all.map((one) => one.name).join(', ') || 'none'}`);
}
