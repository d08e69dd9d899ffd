import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, renameSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * What tells a process from a later one with the same pid: its start time in clock ticks since boot (field 22 of
 * /proc/PID/stat, see proc(5)) and the boot it belongs to.
 */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startTicks: string;
  readonly bootId: string;
}

export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Standard output and error go here; what a former life wrote is kept once, as `PATH.1`. */
  readonly logFile: string;
}

/** The identity of a living process; null if there is none with this pid, or only its unreaped remains. */
export function identify(pid: number): ProcessIdentity | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return null;
  }
  // The second field is the name in brackets and may hold spaces; after it come the state (field 3) and the rest.
  const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const startTicks = rest[18];
  if (state === 'Z' || state === 'X' || startTicks === undefined) return null;
  return { pid, startTicks, bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() };
}

/** Whether it is stopped by SIGSTOP: it lives and does nothing. */
export function isFrozen(identity: ProcessIdentity): boolean {
  if (!isAlive(identity)) return false;
  try {
    const stat = readFileSync(`/proc/${identity.pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
  } catch {
    return false;
  }
}

export function isAlive(identity: ProcessIdentity): boolean {
  const now = identify(identity.pid);
  return now !== null && now.startTicks === identity.startTicks && now.bootId === identity.bootId;
}

/**
 * Starts a server. Without `dieWithOwner` it has a session of its own, so that neither Ctrl-C nor the end of this process
 * reaches it. With it, the kernel kills it as soon as this process is gone, however that went, and it stays in the session
 * of this process: Linux shares the cores out by session first (autogroup, see sched(7)), so that of ten servers in ten
 * sessions the busiest one, the broker, would wait behind nine idle ones. (Measured in the cluster demo on 2 busy cores, two
 * runs: p99 205 ms with ten sessions, 41 ms with one.)
 * @throws when the program cannot be run at all
 */
export async function spawnServer(command: Command, dieWithOwner: boolean): Promise<ProcessIdentity> {
  if (existsSync(command.logFile)) renameSync(command.logFile, `${command.logFile}.1`);
  const log = openSync(command.logFile, 'a');
  const [file, args] = dieWithOwner
    ? ['setpriv', ['--pdeathsig', 'KILL', command.file, ...command.args]]
    : [command.file, [...command.args]];
  try {
    const child = spawn(file, args, {
      cwd: command.cwd,
      env: { ...process.env, ...command.env },
      detached: !dieWithOwner,
      stdio: ['ignore', log, log],
    });
    child.unref();
    if (child.pid === undefined) {
      throw await new Promise<Error>((failed) => child.once('error', failed));
    }
    // A program that ended at once has no identity any more; its pid alone is then enough to say that it is gone.
    return identify(child.pid) ?? { pid: child.pid, startTicks: '', bootId: '' };
  } finally {
    closeSync(log);
  }
}

/**
 * Ends the process and returns when it is gone: SIGTERM first, and SIGKILL after `graceMs` milliseconds (0 = at once).
 * A pid that meanwhile belongs to another process is left alone.
 */
export async function stopProcess(identity: ProcessIdentity, graceMs: number): Promise<void> {
  if (graceMs > 0) {
    signalProcess(identity, 'SIGTERM');
    // One that is frozen hears of it only when it goes on.
    signalProcess(identity, 'SIGCONT');
    if (await isGone(identity, graceMs)) return;
  }
  signalProcess(identity, 'SIGKILL');
  if (!(await isGone(identity, 10_000))) throw new Error(`process ${identity.pid} is still there 10 s after SIGKILL`);
}

/** Sends a signal; a process that is gone gets none, nor does another that has its pid now. */
export function signalProcess(identity: ProcessIdentity, name: NodeJS.Signals): void {
  if (!isAlive(identity)) return;
  try {
    process.kill(identity.pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function isGone(identity: ProcessIdentity, withinMs: number): Promise<boolean> {
  const until = performance.now() + withinMs;
  while (isAlive(identity)) {
    if (performance.now() > until) return false;
    await sleep(20);
  }
  return true;
}
