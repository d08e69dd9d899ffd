import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { random } from '../../bench/demo/jobs.ts';
import type { Grid } from '../../bench/judge/grid.ts';
import { Tally } from '../../bench/judge/tally.ts';
import { gridLines } from '../../bench/load/job-lines.ts';
import { workerMetrics } from '../../bench/measure/worker-metrics.ts';
import { readSqliteLog } from '../../bench/reader/sqlite-log.ts';
import { CarillonClient } from '../../src/sdk/index.ts';
import { dataFolder, type Program, removeFolder, serve } from './embedded/program.ts';

/** The short form of `npm run bench -- embedded`: 10,000 jobs each 100 ms, and kill -9 in between. */
const JOBS = 10_000;
const PERIOD_MS = 100;
const SPAN_MS = 5_000;
/** Registration takes 1 s of a machine that does nothing else. */
const REGISTER_MS = 12_000;
const KILLS = 3;
const TOPIC = 'carillon.triggers.team';
const SEED = Number(process.env['CARILLON_TEST_SEED'] ?? 11);
/** No start takes so long that what was due meanwhile is a misfire. */
const SETTINGS = ['--misfire-after-ms', '60000', '--retention-bytes', String(2 ** 32)];

let folder: string;
let program: Program | null = null;
beforeEach(() => {
  folder = dataFolder();
});
afterEach(async () => {
  await program?.end('SIGKILL');
  program = null;
  removeFolder(folder);
});

/** A process that has just started tells no progress yet, which reads as infinite. */
async function progressReaches(url: string, toMs: number): Promise<void> {
  for (;;) {
    const { leastProgressMs } = await workerMetrics([url]);
    if (Number.isFinite(leastProgressMs) && leastProgressMs >= toMs) return;
    await sleep(100);
  }
}

test('killed again and again at 100,000 triggers a second: each is in the file once, in order, and none before its time', async () => {
  const next = random(SEED);
  program = await serve(folder, ...SETTINGS);
  const client = new CarillonClient({ url: program.url, cluster: 'team' });
  await client.clusters.create({ name: 'team', topic: TOPIC, partitions: 4, envelope: 'compact' });
  const startMs = Math.ceil(Date.now() / 1_000) * 1_000 + REGISTER_MS;
  const toMs = startMs + SPAN_MS;
  const grid: Grid = { jobs: JOBS, periodMs: PERIOD_MS, anchorMs: startMs, phases: 'even', startMs, endMs: toMs };
  const operation = await client.jobs.bulk(() => gridLines(grid, 32));
  expect((await client.operations.wait(operation.key)).counts).toMatchObject({ created: JOBS, failed: 0 });
  expect(Date.now()).toBeLessThan(startMs);
  for (let kill = 0; kill < KILLS; kill += 1) {
    await sleep(startMs + ((kill + next()) / KILLS) * SPAN_MS - Date.now());
    await program.end('SIGKILL');
    program = await serve(folder, ...SETTINGS);
  }
  await progressReaches(program.url, toMs);
  expect((await program.end('SIGTERM')).code).toBe(0);
  program = null;
  const tally = new Tally({ grid, fromMs: startMs - 1, toMs, stepMs: 1_000 });
  readSqliteLog(folder, TOPIC, tally);
  const { expected, ...counts } = tally.finish();
  expect(expected).toBeGreaterThanOrEqual((JOBS * SPAN_MS) / PERIOD_MS);
  expect(counts).toMatchObject({
    read: expected,
    fired: expected,
    lost: 0,
    duplicated: 0,
    early: 0,
    unexpected: 0,
    disordered: 0,
  });
});
