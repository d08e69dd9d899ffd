import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { build } from '../../deploy/build.ts';

/**
 * The published form, installed as a user does. It lies outside of this repository, whose node_modules would hide that a
 * dependency is missing.
 */
const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'carillon-package-'));
const project = join(folder, 'project');
const bin = join(project, 'node_modules', '.bin', 'carillon');
/** Nothing of the settings or of the npm run that this test is part of. */
const env = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(CARILLON_|npm_(package|lifecycle|command|config_local)|INIT_CWD)/.test(name),
  ),
);
const inProject = { cwd: project, env };
const started: ChildProcess[] = [];

beforeAll(async () => {
  const dist = build(join(folder, 'dist'));
  const packed = await run('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: dist, env });
  mkdirSync(project);
  writeFileSync(join(project, 'package.json'), '{ "name": "billing", "private": true, "type": "module" }\n');
  const quiet = ['--prefer-offline', '--no-audit', '--no-fund', '--silent'];
  await run('npm', ['install', ...quiet, join(folder, packed.stdout.trim())], inProject);
}, 180_000);

afterAll(async () => {
  for (const child of started) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  rmSync(folder, { recursive: true, force: true });
});

test('holds JavaScript and types, and neither scripts nor what only the repository needs', () => {
  const installed = join(project, 'node_modules', 'carillon');
  const files = readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);
  expect(files.filter((name) => !/\.(js|d\.ts|lua)$/.test(name)).sort()).toEqual(['README.md', 'package.json']);
  const published = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  const source = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  expect(published).toMatchObject({ version: source.version, dependencies: source.dependencies });
  for (const absent of ['scripts', 'devDependencies', 'optionalDependencies', 'private']) {
    expect(published).not.toHaveProperty(absent);
  }
});

test('its command line previews a schedule', async () => {
  const schedule = ['--cron', '0 9 * * MON-FRI', '--zone', 'Europe/Madrid', '--after', '2026-03-27T12:00:00Z'];
  const { stdout } = await run(bin, ['preview', ...schedule, '--count', '2', '--json'], inProject);
  // The clocks of Madrid go forward on Sunday, 29 March 2026.
  expect(JSON.parse(stdout)).toEqual(['2026-03-30T07:00:00Z', '2026-03-31T07:00:00Z']);
});

/** A service as it is written with the SDK: two jobs in bulk, which are checked on threads, and the first trigger of each. */
const SERVICE = `
import { CarillonClient, consumeHttp } from 'carillon';
const url = process.argv[2];
const client = new CarillonClient({ url });
const job = (key) => ({ key, schedule: { kind: 'rate', everyMs: 100 }, payload: { for: key } });
const { key } = await client.jobs.bulk([job('first'), job('second')]);
await client.operations.wait(key);
const seen = new Map();
const done = Promise.withResolvers();
const consumer = await consumeHttp({
  url,
  group: 'billing',
  handler: async (trigger) => {
    seen.set(trigger.key, trigger.text());
    if (seen.size === 2) done.resolve();
  },
});
await done.promise;
await consumer.stop();
console.log(JSON.stringify(Object.fromEntries(seen)));
`;

test('serves, takes jobs, and fires them to a service that uses the SDK; ends with 0 when it is told to', async () => {
  const child = spawn(bin, ['serve', '--listen-port', '0'], { ...inProject, stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  const url = await ready(child);
  writeFileSync(join(project, 'service.js'), SERVICE);
  const { stdout } = await run(process.execPath, ['service.js', url], { ...inProject, timeout: 100_000 });
  expect(JSON.parse(stdout)).toEqual({ first: '{"for":"first"}', second: '{"for":"second"}' });
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
}, 120_000);

/** The address in the line with which the program says that it is ready. */
async function ready(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) {
    if (!line.includes('"carillon is ready"')) continue;
    child.stdout!.resume();
    const { host, port } = JSON.parse(line);
    return `http://${host}:${port}`;
  }
  throw new Error('it ended before it was ready');
}

test('its cluster mode loads whole, Redis scripts with it: nothing is missing but the servers', async () => {
  const nobody = '127.0.0.1:9';
  const addresses = ['--mongodb-uri', `mongodb://${nobody}/?replicaSet=rs0`, '--redis-url', `redis://${nobody}`];
  const serve = run(bin, ['serve', '--mode', 'cluster', ...addresses, '--kafka-brokers', nobody], inProject);
  await expect(serve).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/^carillon serve: .*MongoDB/) });
});

const CONSUMER = `
import { CarillonClient, type JobView } from 'carillon';
const client = new CarillonClient({ url: 'http://127.0.0.1:7171' });
export const job: Promise<JobView> = client.jobs.put({ key: 'a', schedule: { kind: 'rate', everyMs: 1_000 } });
`;

test('its types are found by a strict TypeScript project, and they check', async () => {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  // A project in TypeScript on Node has the types of Node; those of this repository stand for them.
  const types = { typeRoots: [join(root, 'node_modules', '@types')], types: ['node'], skipLibCheck: false };
  const compilerOptions = { module: 'nodenext', target: 'es2024', strict: true, noEmit: true, ...types };
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['right.ts', 'wrong.ts'] }));
  writeFileSync(join(project, 'right.ts'), CONSUMER);
  writeFileSync(join(project, 'wrong.ts'), CONSUMER.replace('everyMs: 1_000', "everyMs: 'often'"));
  // One fault in all: the one that was put there, which only types that were found can tell.
  const checked = run(process.execPath, [tsc, '-p', '.'], inProject);
  const fault = /^wrong\.ts\(4,\d+\): error TS2322: Type 'string' is not assignable to type 'number'\.\n$/;
  await expect(checked).rejects.toMatchObject({ stdout: expect.stringMatching(fault) });
});
