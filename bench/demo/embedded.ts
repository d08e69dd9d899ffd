/**
 * `npm run demo`: the embedded product, as `npm start` runs it, in a process of its own. The cron lines of Debian packages are
 * imported and previewed against a committed table; 5,000 generated jobs of all kinds fire for 30 s, judged by a reader in a
 * third process. `--json FILE` writes the result, `--refresh` fetches the Debian packages again, `--seconds N` and `--jobs N`
 * change the size.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { importCrontab } from '../../src/sdk/import/crontab.ts';
import { CarillonClient } from '../../src/sdk/index.ts';
import type { Segment } from '../judge.ts';
import { cronTable } from '../oracle/occurrences.ts';
import { debianCrontabs, refreshDebianCrontabs } from './debian.ts';
import { demoJobs } from './jobs.ts';
import { failures, printResult, Reader, resultOf } from './report.ts';

const P99_MS = 50;
/** Jobs are registered before the judged span begins; measured: 5,000 take about a second. */
const LEAD_MS = 6_000;
const PREVIEW_AFTER = '2027-03-13T00:00:00Z';
const PREVIEW_ZONE = 'Europe/Madrid';

async function startEmbedded(folder: string): Promise<{ url: string; stop(): Promise<void> }> {
  const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
  const args = [main, 'serve', '--listen-port', '0', '--data-dir', folder, '--log-level', 'info'];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  process.once('exit', () => child.kill('SIGKILL'));
  const ended = new Promise<never>((_, reject) => {
    child.once('exit', (code) => reject(new Error(`carillon ended with ${code}`)));
  });
  ended.catch(() => {});
  const ready = new Promise<string>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (text) => {
      const line = JSON.parse(text) as { level: string; msg: string; host?: string; port?: number };
      if (line.msg === 'carillon is ready') resolve(`http://${line.host}:${line.port}`);
      else if (line.level !== 'info') console.error(text);
    });
  });
  const url = await Promise.race([ready, ended]);
  return {
    url,
    async stop() {
      child.kill('SIGTERM');
      await ended.catch(() => {});
    },
  };
}

/** Imports the Debian lines, paused so that they do not fire meanwhile; answers how many and what differed. */
async function debian(client: CarillonClient): Promise<{ imported: number; refused: number; faults: string[] }> {
  const faults: string[] = [];
  let imported = 0;
  let refused = 0;
  for (const { package: name, version, file, lines } of debianCrontabs()) {
    for (const line of lines) {
      const expected = cronTable.previews[line];
      const result = importCrontab(line, { system: true, zone: PREVIEW_ZONE, prefix: `debian/${name}/`, name: file });
      const job = result.jobs[0]?.form;
      if (job === undefined) {
        refused += 1;
        if (expected !== null) faults.push(`${name} ${version}: refused, but it has a time: ${line}`);
        continue;
      }
      await client.jobs.put({ ...job, state: 'paused' });
      imported += 1;
      const { occurrences } = await client.preview({
        schedule: job.schedule,
        key: job.key,
        after: PREVIEW_AFTER,
        count: 10,
      });
      const got = occurrences.map(({ nominal }) => nominal);
      if (JSON.stringify(got) !== JSON.stringify(expected))
        faults.push(`${name} ${version}: ${line}: ${got}, not ${expected}`);
    }
  }
  return { imported, refused, faults };
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      json: { type: 'string' },
      refresh: { type: 'boolean' },
      seconds: { type: 'string', default: '30' },
      jobs: { type: 'string', default: '5000' },
    },
  });
  if (values.refresh) refreshDebianCrontabs();
  const seconds = Number(values.seconds);
  const folder = mkdtempSync(join(tmpdir(), 'carillon-demo-data-'));
  const carillon = await startEmbedded(folder);
  const reader = new Reader(['http', carillon.url, 'default']);
  try {
    await reader.ready();
    const client = new CarillonClient({ url: carillon.url });
    const lines = await debian(client);
    console.log(
      `Debian: ${lines.imported} cron lines imported and previewed, ${lines.refused} refused (@reboot), ${lines.faults.length} differ`,
    );

    const fromMs = Math.ceil((Date.now() + LEAD_MS) / 1_000) * 1_000;
    const toMs = fromMs + seconds * 1_000;
    const plan = {
      jobs: Number(values.jobs),
      fromMs,
      toMs,
      periodsMs: [1_000, 2_000, 3_000, 5_000, 7_500],
      cronMaxPerSecond: 0.5,
      seed: 1,
    };
    const jobs = demoJobs(plan);
    const began = performance.now();
    const operation = await client.jobs.bulk(jobs.map(({ form }) => form));
    const done = await client.operations.wait(operation.key);
    console.log(
      `${jobs.length} jobs registered in ${Math.round(performance.now() - began)} ms: ${JSON.stringify(done.counts)}`,
    );
    if (Date.now() > fromMs) throw new Error('registration took longer than the lead: the judged span began too early');

    await sleep(toMs - Date.now());
    const rules = new Map<string, Segment[]>(
      jobs.map(({ form, oracle }) => [form.key, [{ schedule: oracle, afterMs: 0, upToMs: Number.POSITIVE_INFINITY }]]),
    );
    const verdict = await reader.judge(rules, fromMs, toMs);
    const result = {
      ...resultOf(verdict, jobs.length, seconds),
      debian_lines: lines.imported,
      debian_differ: lines.faults.length,
    };
    printResult('Carillon, embedded (one process, SQLite)', result);
    if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);
    const wrong = [...failures(result, { p99Ms: P99_MS, offeredLeast: 1 }), ...lines.faults];
    for (const fault of wrong) console.error(`FAILED: ${fault}`);
    return wrong.length === 0 ? 0 : 1;
  } finally {
    reader.stop();
    await carillon.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

// Whoever ends the demo ends what it started: exit handlers run on exit, not on a signal.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(1));
process.exitCode = await main();
