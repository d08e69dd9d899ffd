import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { random } from '../../bench/demo/jobs.ts';
import { dataFolder, type Line, nominalOf, type Program, removeFolder, serve, stream } from './embedded/program.ts';

/** kill -9 at any moment, as the power may do it: nothing that was answered is lost, and nothing fires twice. */
const ROUNDS = 4;
const SEED = Number(process.env['CARILLON_TEST_SEED'] ?? 7);
const PERIODS_MS = [100, 130, 250, 400];
const RATE_JOBS = 24;
/** No start takes so long that what was due meanwhile is a misfire. */
const PATIENT = ['--misfire-after-ms', '60000'];

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

const jobsUrl = (url: string): string => `${url}/v1/clusters/default/jobs`;

/** Registers a job; true: it was answered that it is there. Without an answer it may be there or not. */
async function put(url: string, key: string, job: Record<string, unknown>): Promise<boolean> {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify(job);
  const answer = await fetch(`${jobsUrl(url)}/${key}`, { method: 'PUT', headers, body }).catch(() => null);
  if (answer === null) return false;
  const said = await answer.text().catch(() => '');
  expect(answer.status, said).toBeLessThan(300);
  return true;
}

/** What the installation was asked for, and what it answered. */
class Asked {
  /** Anchor and period of rates, by key, UTC ms and ms. */
  readonly rates = new Map<string, { anchorMs: number; everyMs: number }>();
  /** Times of one-shots, by key; whether they were answered. */
  readonly once = new Map<string, { atMs: number; answered: boolean }>();
  readonly #next = random(SEED);

  next(): number {
    return this.#next();
  }

  async rate(url: string, i: number): Promise<void> {
    const everyMs = PERIODS_MS[i % PERIODS_MS.length]!;
    const anchorMs = Date.now() + 2_000 + Math.floor(this.next() * 300);
    this.rates.set(`rate-${i}`, { anchorMs, everyMs });
    const schedule = { kind: 'rate', everyMs, anchor: new Date(anchorMs).toISOString() };
    expect(await put(url, `rate-${i}`, { schedule })).toBe(true);
  }

  /** One-shots without end, one after the other, until the process is gone; some are due while nothing runs. */
  async onceUntilKilled(url: string, round: number, lane: number): Promise<void> {
    for (let i = 0; ; i += 1) {
      const key = `once-${round}-${lane}-${i}`;
      const atMs = Date.now() + 2_000 + Math.floor(this.next() * 2_000);
      const one = { atMs, answered: false };
      this.once.set(key, one);
      one.answered = await put(url, key, { schedule: { kind: 'once', at: new Date(atMs).toISOString() } });
      if (!one.answered) return;
    }
  }
}

/** A member of a group that commits after every few triggers, until the process is gone. */
async function consume(url: string, given: Line[], committed: Map<number, number>, wanted: () => boolean) {
  let session = '';
  let waiting: Line[] = [];
  for await (const line of stream(url, 'group=crash')) {
    if (line.session !== undefined) session = line.session;
    if (line.id === undefined) continue;
    given.push(line);
    waiting.push(line);
    if (waiting.length >= 20) {
      const offsets = [...new Map(waiting.map(({ partition, offset }) => [partition, offset + 1]))].map(
        ([partition, next]) => ({ partition, next }),
      );
      const answer = await fetch(`${url}/v1/clusters/default/triggers/commit`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ session, offsets }),
      }).catch(() => null);
      if (answer?.ok) for (const { partition, next } of offsets) committed.set(partition, next);
      waiting = [];
    }
    if (!wanted()) return;
  }
}

/** The whole log, until every rate has fired behind `toMs`. */
async function readLog(url: string, rates: Iterable<string>, toMs: number): Promise<Line[]> {
  const log: Line[] = [];
  const behind = new Set(rates);
  for await (const line of stream(url, 'from=first')) {
    if (line.id === undefined) continue;
    log.push(line);
    if (nominalOf(line.id) > toMs) behind.delete(line.key);
    if (behind.size === 0) return log;
  }
  throw new Error('the stream ended early');
}

test('killed again and again under load: every occurrence is in the log exactly once, and no answer was a lie', async () => {
  const asked = new Asked();
  /** Newest offset after the last commit that was answered, by partition. */
  const committed = new Map<number, number>();
  const given: Line[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    program = await serve(folder, ...PATIENT);
    const { url } = program;
    if (round === 0) await Promise.all(Array.from({ length: RATE_JOBS }, (_, i) => asked.rate(url, i)));
    const from = given.length;
    const before = new Map(committed);
    const consuming = consume(url, given, committed, () => true);
    const asking = [0, 1, 2].map((lane) => asked.onceUntilKilled(url, round, lane));
    while (given.length < from + 60) await sleep(10);
    await sleep(asked.next() * 600);
    await program.end('SIGKILL');
    await Promise.all([consuming, ...asking]);
    // What was not committed comes again, from the first of it on; a commit may have been stored without an answer.
    for (const [partition, next] of before) {
      const first = given.slice(from).find((line) => line.partition === partition);
      if (first !== undefined) expect(first.offset).toBeGreaterThanOrEqual(next);
    }
  }

  program = await serve(folder, ...PATIENT);
  const { url } = program;
  const toMs = Math.max(Date.now(), ...[...asked.once.values()].map(({ atMs }) => atMs)) + 200;
  const log = await readLog(url, asked.rates.keys(), toMs);
  const seen = Map.groupBy(log, ({ key }) => key);
  const timesOf = (key: string): number[] => {
    const times = (seen.get(key) ?? []).map(({ id }) => nominalOf(id)).filter((at) => at <= toMs);
    return times.sort((a, b) => a - b);
  };
  for (const [key, { anchorMs, everyMs }] of asked.rates) {
    const n = Math.floor((toMs - anchorMs) / everyMs) + 1;
    expect(timesOf(key), key).toEqual(Array.from({ length: n }, (_, i) => anchorMs + i * everyMs));
  }
  for (const [key, { atMs, answered }] of asked.once) {
    const { status } = await fetch(`${jobsUrl(url)}/${key}`);
    if (answered) expect(status, key).toBe(200);
    expect(timesOf(key), key).toEqual(status === 200 ? [atMs] : []);
  }

  // The group has got, or gets now, everything that is in the log.
  const missing = new Set(log.map(({ partition, offset }) => `${partition}/${offset}`));
  for (const { partition, offset } of given) missing.delete(`${partition}/${offset}`);
  await consume(url, given, committed, () => {
    const { partition, offset } = given.at(-1)!;
    missing.delete(`${partition}/${offset}`);
    return missing.size > 0;
  });
  expect(missing.size).toBe(0);
  expect((await program.end('SIGTERM')).code).toBe(0);
  program = null;
});

test('what was due while nothing ran goes by the misfire rule; firing goes on without waiting for a death', async () => {
  program = await serve(folder);
  const nowMs = Date.now();
  const at = (ms: number) => ({ kind: 'once', at: new Date(nowMs + ms).toISOString() });
  const skip = { mode: 'skip' };
  await put(program.url, 'old-skip', { schedule: at(10_000), misfire: skip });
  await put(program.url, 'old-once', { schedule: at(10_000) });
  await put(program.url, 'young-skip', { schedule: at(60_000), misfire: skip });
  await put(program.url, 'after', { schedule: at(600_000) });
  await program.end('SIGKILL');

  // A minute later. Unpublished for more than 10 s is a misfire, so the start may take that long.
  program = await serve(folder, '--clock-offset-ms', '60000');
  await put(program.url, 'last', { schedule: { kind: 'delay', delayMs: 500 } });
  const fired: string[] = [];
  for await (const line of stream(program.url, 'from=first')) {
    if (line.id !== undefined) fired.push(line.key);
    if (line.key === 'last') break;
  }
  expect(fired.sort()).toEqual(['last', 'old-once', 'young-skip']);
  const said = program.log.map(({ msg }) => msg);
  expect(said).not.toContain('a session was declared dead');
  expect((await program.end('SIGTERM')).code).toBe(0);
  program = null;
});
