import { spawn } from 'node:child_process';
import { describe, expect, test } from 'vitest';

/** Runs a program of this folder in a process of its own, since it takes over what Node gives; answers what it printed. */
function run(file: string, args: readonly string[]): Promise<{ code: number | null; text: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [`test/simulation/${file}`, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        text += chunk.toString('utf8');
      });
    }
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, text }));
  });
}

describe('simulation', () => {
  test.each([1, 101, 201])('100 seeds from %i on, ten simulated minutes each, break no invariant', async (from) => {
    const { code, text } = await run('main.ts', ['--seeds', '100', '--from', String(from), '--minutes', '10']);
    expect(code, text).toBe(0);
  });

  test('a seed is the same each time', async () => {
    const [one, other] = await Promise.all(
      [1, 2].map(() => run('main.ts', ['--seed', '7', '--minutes', '3', '--trace'])),
    );
    const trace = (text: string): string => text.split('\n').slice(0, -2).join('\n');
    expect(trace(one!.text)).toContain('nothing goes wrong from now on');
    expect(trace(one!.text)).toBe(trace(other!.text));
  });

  test('every planted bug still applies', async () => {
    const { code, text } = await run('mutate.ts', ['--check']);
    expect(code, text).toBe(0);
  });
});
