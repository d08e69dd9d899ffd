/**
 * `npm test`: first what needs no run (types, lint, layers, unused code), then vitest, then the chaos suite in its short form,
 * alone, since it measures. Each check counts as one test, and each fault too. With arguments only vitest runs. The last
 * line is `N passed, N failed`, with `, N skipped` when something was skipped, which only `CARILLON_TEST_SERVERS=none` does.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

const CHECKS = ['typecheck', 'lint', 'layers', 'unused'];

function run(command: string, args: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: 'inherit' });
    child.on('error', reject);
    child.on('exit', (code) => resolve(code ?? 1));
  });
}

async function checks(counts: Counts): Promise<void> {
  for (const name of CHECKS) {
    const code = await run('npm', ['run', '-s', name]);
    console.log(`${code === 0 ? 'ok' : 'FAILED'}: ${name}`);
    counts[code === 0 ? 'passed' : 'failed'] += 1;
  }
}

async function vitest(counts: Counts, args: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'carillon-test-'));
  const file = join(folder, 'result.json');
  try {
    console.log(`property tests draw from CARILLON_TEST_SEED=${process.env['CARILLON_TEST_SEED'] ?? '1'}`);
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`];
    const vitestMain = join('node_modules', 'vitest', 'vitest.mjs');
    const code = await run(process.execPath, [vitestMain, 'run', ...reporters, ...args]);
    const result = JSON.parse(readFileSync(file, 'utf8'));
    counts.passed += result.numPassedTests;
    counts.failed += result.numFailedTests;
    counts.skipped += result.numPendingTests + result.numTodoTests;
    // A file that fails to load, or an unhandled error, has no failed test of its own.
    if (code !== 0 && result.numFailedTests === 0) counts.failed += 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function chaos(counts: Counts): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'carillon-test-'));
  const file = join(folder, 'result.json');
  try {
    const seed = process.env['CARILLON_TEST_SEED'] ?? '1';
    await run(process.execPath, [join('test', 'chaos', 'main.ts'), '--short', '--seed', seed, '--json', file]);
    const { faults }: { faults: { wrong: string[] }[] } = JSON.parse(readFileSync(file, 'utf8'));
    for (const { wrong } of faults) counts[wrong.length === 0 ? 'passed' : 'failed'] += 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
try {
  await checks(counts);
  const only = process.argv.slice(2);
  await vitest(counts, only);
  if (only.length === 0 && process.env['CARILLON_TEST_SERVERS'] !== 'none') await chaos(counts);
} catch (error) {
  console.error(error);
  counts.failed += 1;
}
const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
process.exitCode = counts.failed > 0 || (counts.skipped > 0 && process.env['CARILLON_TEST_SERVERS'] !== 'none') ? 1 : 0;
