/** The embedded product in a process of its own, as `carillon serve` runs it, on a folder that outlives it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));

export interface EmbeddedProcess {
  url: string;
  pid: number;
  /** Ends as it should. */
  stop(): Promise<void>;
  /** Ends at once, as by a loss of power to the process. */
  kill(): Promise<void>;
}

export async function startEmbedded(folder: string, settings: readonly string[] = []): Promise<EmbeddedProcess> {
  const args = [MAIN, 'serve', '--listen-port', '0', '--data-dir', folder, '--log-level', 'info', ...settings];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const end = (): void => void child.kill('SIGKILL');
  process.once('exit', end);
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => {
      process.off('exit', end);
      resolve();
    });
  });
  const url = await new Promise<string>((resolve, reject) => {
    void ended.then(() => reject(new Error('carillon ended before it was ready')));
    createInterface({ input: child.stdout! }).on('line', (text) => {
      const line = JSON.parse(text) as { level: string; msg: string; host?: string; port?: number };
      if (line.msg === 'carillon is ready') resolve(`http://${line.host}:${line.port}`);
      else if (line.level !== 'info') console.error(text);
    });
  });
  const by = (signal: NodeJS.Signals) => async (): Promise<void> => {
    child.kill(signal);
    await ended;
  };
  return { url, pid: child.pid ?? 0, stop: by('SIGTERM'), kill: by('SIGKILL') };
}
