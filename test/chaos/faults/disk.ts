import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { serverProcesses } from '../../../deploy/local/instance.ts';
import { startMember } from '../../../deploy/local/members.ts';
import { isAlive } from '../../../deploy/local/process.ts';
import type { Fault } from '../fault.ts';
import { UNTABLED } from '../limits.ts';

const SPAN_MS = 10_000;

/** Writes into a file until the disk has no room for another piece. */
function fill(file: string): void {
  const piece = Buffer.alloc(1024 * 1024, 1);
  const opened = openSync(file, 'w');
  try {
    for (;;) writeSync(opened, piece);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(opened);
  }
}

/** The disk of one server is full for a while; then there is room again, and what ended meanwhile is started, as people do it. */
function full(server: string): Fault {
  return {
    name: `disk-full-${server}`,
    bounds: UNTABLED,
    async strike(world) {
      const filler = join(world.which.dir, server, 'filler');
      world.stroke(`the disk of ${server} is full`);
      fill(filler);
      await sleep(SPAN_MS);
      rmSync(filler);
      const [process] = serverProcesses(world.which).filter(({ name }) => name === server);
      const ended = process === undefined || !isAlive(process.process);
      if (ended) await startMember(world.which, server);
      await world.whole();
      return { notes: [ended ? `${server} ended by it and was started again` : `${server} went on by itself`] };
    },
  };
}

export const diskFaults: readonly Fault[] = ['kafka', 'mongodb', 'redis'].map(full);
