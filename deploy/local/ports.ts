import { createServer } from 'node:net';
import { type Lock, tryLock } from './locks.ts';

export const HOST = '127.0.0.1';

/** How many ports above the preferred one are tried. Preferred ports lie below 32768, where Linux begins to give
 * ports to outgoing connections. */
const SPAN = 500;

/** A port that is free and that no other start on this machine will choose while it is held. */
export interface ReservedPort {
  readonly port: number;
  release(): Promise<void>;
}

/**
 * The first port from `preferred` upwards (at most 500 further) that nobody listens on and no other start has in hand.
 * Between the look and the server's own bind a stranger may still take it; then the server ends and the start is tried
 * again with the next one.
 */
export async function reservePort(preferred: number): Promise<ReservedPort> {
  for (let port = preferred; port <= preferred + SPAN; port += 1) {
    const held: Lock | null = await tryLock(`port ${port}`);
    if (!held) continue;
    if (await isFree(port)) return { port, release: held.release };
    await held.release();
  }
  throw new Error(`no free port on ${HOST} from ${preferred} to ${preferred + SPAN}`);
}

/** Whether a listener on 127.0.0.1 could be bound to this port now. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ port, host: HOST, exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
