import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A name held by this process alone until it is released, or until the process ends in whatever way. */
export interface Lock extends AsyncDisposable {
  release(): Promise<void>;
}

/**
 * Takes the lock or answers null at once. A lock is an abstract Unix socket of Linux: the kernel gives its name to one
 * process only and frees it when that process dies, so there is no stale lock file to reason about.
 */
export async function tryLock(name: string): Promise<Lock | null> {
  const server = createServer((socket) => socket.destroy());
  const path = `\0carillon-${createHash('sha256').update(name).digest('hex').slice(0, 32)}`;
  if (!(await listens(server, path))) return null;
  server.unref();
  const release = (): Promise<void> => new Promise((done) => server.close(() => done()));
  return { release, [Symbol.asyncDispose]: release };
}

/** Waits for the lock up to `waitMs` milliseconds, then throws an error that names what it waited for. */
export async function lock(name: string, waitMs: number): Promise<Lock> {
  const until = performance.now() + waitMs;
  for (;;) {
    const taken = await tryLock(name);
    if (taken) return taken;
    if (performance.now() > until) throw new Error(`another process has held "${name}" for ${waitMs / 1000} s`);
    await sleep(50);
  }
}

function listens(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    server.once('listening', () => resolve(true));
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    server.listen(path);
  });
}
