import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url));

export interface Ran {
  code: number | null;
  out: string;
  err: string;
}

export function start(args: readonly string[], environment: Record<string, string> = {}): ChildProcess {
  const { CARILLON_URL, CARILLON_API_KEY, ...inherited } = process.env;
  return spawn(process.execPath, [MAIN, ...args], { env: { ...inherited, ...environment } });
}

/** Runs the command line as a user does: a process of its own. */
export async function carillon(args: readonly string[], environment = {}, input = ''): Promise<Ran> {
  const child = start(args, environment);
  child.stdin!.end(input);
  const [out, err, [code]] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'exit')]);
  return { code: code as number | null, out, err };
}
