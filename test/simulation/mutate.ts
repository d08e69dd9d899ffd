import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/**
 * Planted bugs: applies each patch of `mutations/` to a copy of the tree and runs seeds until one breaks an invariant. Fails
 * when a patch no longer applies, or when no seed catches it. `--check` only applies the patches; `--only NAME` takes one.
 */
const { values } = parseArgs({
  options: {
    check: { type: 'boolean', default: false },
    only: { type: 'string' },
    seeds: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '5' },
  },
});
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PATCHES = fileURLToPath(new URL('mutations', import.meta.url));
/** What a seed needs of the tree. */
const PARTS = ['src', 'shard-manager', 'trigger-worker', 'test/simulation', 'package.json'];

const patches = readdirSync(PATCHES)
  .filter((name) => name.endsWith('.patch') && (values.only === undefined || name.includes(values.only)))
  .sort();
if (patches.length === 0) throw new Error('there are no such patches');

const folder = mkdtempSync(join(tmpdir(), 'carillon-mutations-'));
let failed = 0;
try {
  for (const patch of patches) {
    const result = plant(patch);
    if (!result.good) failed += 1;
    console.log(`${result.good ? 'ok' : 'FAILED'}: ${basename(patch, '.patch')}: ${result.told}`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${patches.length} planted bugs, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;

function plant(patch: string): { good: boolean; told: string } {
  const tree = join(folder, basename(patch, '.patch'));
  for (const part of PARTS) cpSync(join(ROOT, part), join(tree, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
  try {
    // Outside a repository, so that it does not matter which files git knows.
    execFileSync('git', ['apply', '-p1', join(PATCHES, patch)], { cwd: tree, env: { ...process.env, GIT_DIR: '/' } });
  } catch (error) {
    return { good: false, told: `it does not apply: ${String((error as { stderr?: unknown }).stderr ?? error)}` };
  }
  if (values.check) return { good: true, told: 'it applies' };
  const run = spawnSync(
    process.execPath,
    ['test/simulation/main.ts', '--seeds', values.seeds, '--from', values.from, '--minutes', values.minutes, '--dense'],
    { cwd: tree, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
  );
  rmSync(tree, { recursive: true, force: true });
  const broke = /^seed \d+ broke .*$/m.exec(run.stdout)?.[0];
  if (broke !== undefined) return { good: true, told: `caught, ${broke}` };
  return { good: false, told: run.status === 0 ? 'no seed catches it' : `the simulation did not run: ${run.stderr}` };
}
