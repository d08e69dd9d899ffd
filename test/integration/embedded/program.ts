import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

const ROOT = join(import.meta.dirname, '../../..');

/** What a user types after `npm run carillon --`; settings of the one who runs the tests do not count. */
function spawned(args: readonly string[]): ChildProcess {
  const environment = Object.entries(process.env).filter(([name]) => !name.startsWith('CARILLON_'));
  const main = join(ROOT, 'src/cli/main.ts');
  return spawn(process.execPath, [main, ...args], {
    env: Object.fromEntries(environment),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

export interface Ended {
  code: number | null;
  out: string;
  err: string;
}

/** Runs a command to its end. */
export async function carillon(...args: string[]): Promise<Ended> {
  const child = spawned(args);
  const [out, err, [code]] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'exit')]);
  return { code: code as number | null, out, err };
}

/** A command that runs until it is ended; its lines come as they are printed. */
export function running(...args: string[]): {
  child: ChildProcess;
  lines: AsyncIterator<string>;
  err: Promise<string>;
} {
  const child = spawned(args);
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  return { child, lines, err: text(child.stderr!) };
}

export interface Program {
  readonly url: string;
  /** Its log so far. */
  readonly log: Record<string, unknown>[];
  /** Sends a signal and waits for the end. */
  end(signal: NodeJS.Signals): Promise<{ code: number | null; err: string }>;
}

/** `carillon serve` on a data folder, when it is ready. */
export async function serve(folder: string, ...flags: string[]): Promise<Program> {
  const child = spawned(['serve', '--data-dir', folder, '--listen-port', '0', ...flags]);
  const exit = once(child, 'exit');
  const err = text(child.stderr!);
  const log: Record<string, unknown>[] = [];
  const ready = new Promise<string>((resolve) => {
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const entry = JSON.parse(line) as Record<string, unknown>;
      log.push(entry);
      if (entry['msg'] === 'carillon is ready') resolve(`http://${entry['host']}:${entry['port']}`);
    });
  });
  const refused = exit.then(async ([code]) => {
    throw new Error(`carillon ended with ${code}: ${await err}`);
  });
  const url = await Promise.race([ready, refused]);
  refused.catch(() => {});
  return {
    url,
    log,
    async end(signal) {
      child.kill(signal);
      const [code] = await exit;
      return { code: code as number | null, err: await err };
    },
  };
}

/** A data folder below the ignored folder of the servers. */
export function dataFolder(): string {
  mkdirSync(join(ROOT, '.servers/tmp'), { recursive: true });
  return mkdtempSync(join(ROOT, '.servers/tmp/embedded-'));
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

export interface Line {
  session?: string;
  partition: number;
  offset: number;
  at: string;
  key: string;
  id: string;
}

/** Nominal time of an execution id, UTC ms. */
export function nominalOf(id: string): number {
  return Number(id.split('-')[2]);
}

/** The API's stream of triggers; it ends when the process does. */
export async function* stream(url: string, query: string): AsyncGenerator<Line> {
  const response = await fetch(`${url}/v1/clusters/default/triggers?${query}`);
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  let rest = '';
  try {
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + part).split('\n');
      rest = lines.pop()!;
      for (const line of lines) if (line !== '') yield JSON.parse(line) as Line;
    }
  } catch {
    // The process was killed: what came is what counts.
  }
}
