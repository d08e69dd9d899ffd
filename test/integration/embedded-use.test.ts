import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { carillon, dataFolder, type Program, removeFolder, running, serve, stream } from './embedded/program.ts';

/** The embedded product as its user meets it: the real program on a fresh folder. */
let folder: string;
const programs: Program[] = [];
beforeEach(() => {
  folder = dataFolder();
});
afterEach(async () => {
  for (const program of programs.splice(0)) await program.end('SIGKILL');
  removeFolder(folder);
});

async function started(...flags: string[]): Promise<Program> {
  const program = await serve(folder, ...flags);
  programs.push(program);
  return program;
}

test('a job every second, added by the command line, is seen firing by tail; Ctrl-C ends both with 0', async () => {
  const program = await started();
  const at = ['--url', program.url];
  const tail = running('tail', '--count', '3', '--json', ...at);
  const added = await carillon('job', 'add', 'tick', '--cron', '* * * * * *', '--payload', '{"a":1}', '--json', ...at);
  expect(added).toMatchObject({ code: 0, err: '' });
  expect(JSON.parse(added.out)).toMatchObject({ key: 'tick', version: 1, state: 'enabled' });
  const times: number[] = [];
  for (let i = 0; i < 3; i += 1) {
    const trigger = JSON.parse((await tail.lines.next()).value);
    expect(trigger).toMatchObject({ key: 'tick', payload: '{"a":1}' });
    times.push(Date.parse(trigger.headers['ce_time']));
  }
  expect(times).toEqual([times[0], times[0]! + 1_000, times[0]! + 2_000]);
  expect(await once(tail.child, 'exit')).toEqual([0, null]);

  const shown = await carillon('job', 'show', 'tick', '--json', ...at);
  expect(JSON.parse(shown.out)).toMatchObject({ key: 'tick', state: 'enabled' });
  const list = await carillon('job', 'list', '--json', ...at);
  expect(list.out).toContain('"tick"');
  const endless = running('tail', ...at);
  expect((await endless.lines.next()).value).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z {2}tick {2}\d+-\d+-\d+ {2}\{"a":1\}$/);
  endless.child.kill('SIGINT');
  expect(await once(endless.child, 'exit')).toEqual([0, null]);

  expect(await program.end('SIGINT')).toEqual({ code: 0, err: '' });
  expect(program.log.filter(({ level }) => level !== 'info')).toEqual([]);
});

test('a folder in use, a port that is taken and data of a newer program are refused, with the reason and the mend', async () => {
  await started();
  const second = await carillon('serve', '--data-dir', folder, '--listen-port', '0');
  expect(second).toMatchObject({ code: 2, out: '' });
  expect(second.err).toMatch(/in use by the process with pid \d+: stop it, or name another folder/);
  const { url } = programs[0]!;

  const other = dataFolder();
  try {
    const taken = await carillon('serve', '--data-dir', other, '--listen-port', new URL(url).port);
    expect(taken.code).toBe(2);
    expect(taken.err).toContain(new URL(url).port);
    expect(taken.err).toMatch(/listenPort|--listen-port/);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  } finally {
    removeFolder(other);
  }

  expect(await programs[0]!.end('SIGTERM')).toEqual({ code: 0, err: '' });
  const db = new DatabaseSync(join(folder, 'carillon.db'));
  db.exec('PRAGMA user_version = 99');
  db.close();
  const newer = await carillon('serve', '--data-dir', folder, '--listen-port', '0');
  expect(newer.code).toBe(2);
  expect(newer.err).toMatch(/form 99 .* start the newer program that wrote them, or name another data folder/);
});

test('a port that was never given back is named before the data are touched', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const refused = await carillon('serve', '--data-dir', folder, '--listen-port', `${port}`);
  server.close();
  expect(refused.code).toBe(2);
  expect(refused.err).toContain(`${port}`);
  // The folder is free again.
  expect((await (await started()).end('SIGTERM')).code).toBe(0);
});

test('triggers are kept for their time after the commit, and not more of them than the bound in bytes', async () => {
  const program = await started('--retention-ms', '3600000', '--retention-bytes', '1048576');
  const { url } = program;
  // 40 jobs, ten times a second, 4 KB each: above the bound of 1 MiB after less than a second.
  const form = (i: number) => ({
    key: `job-${i}`,
    schedule: { kind: 'rate', everyMs: 100 },
    payload: 'x'.repeat(4_096),
  });
  const answer = await fetch(`${url}/v1/clusters/default/jobs:bulk`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(Array.from({ length: 40 }, (_, i) => form(i))),
  });
  expect(answer.status).toBe(200);
  const partitions = new Set<number>();
  /** Offset of the first record of a partition that is kept. */
  const begins = async (): Promise<{ least: number; bytes: number }> => {
    const end = Date.now();
    const first = new Map<number, number>();
    let bytes = 0;
    for await (const line of stream(url, 'from=first')) {
      if (line.id === undefined) continue;
      partitions.add(line.partition);
      if (!first.has(line.partition)) first.set(line.partition, line.offset);
      if (Date.parse(line.at) > end) break;
      bytes += 4_096;
    }
    return { least: Math.max(...first.values()), bytes };
  };
  // Just after a sweep, the bound and what was written since: until then the time limit of the test runs. Partitions are swept one
  // after the other.
  const bound = 3 * 1_048_576;
  let kept = await begins();
  while (kept.least === 0 || kept.bytes >= bound) {
    await sleep(500);
    kept = await begins();
  }
  expect((await program.end('SIGTERM')).code).toBe(0);
});
