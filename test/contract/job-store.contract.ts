import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Job, JobDefinition } from '../../src/core/job.ts';
import { jobOfLine, LinesWriter, readLines } from '../../src/core/lines.ts';
import type { JobStore } from '../../src/ports/job-store.ts';
import { oneShotStatements } from './job-endings.contract.ts';
import { jobListStatements } from './job-store-lists.contract.ts';
import { reopened, type StoreOpening } from './opening.ts';
import { sampleJob } from './samples.ts';

const sampleDefinition: JobDefinition = {
  schedule: { kind: 'once', atMs: 1_790_000_000_000 },
  bounds: {},
  misfire: { mode: 'once' },
  payload: 'null',
  contentType: 'application/json',
};

export type OpenedJobs = () => StoreOpening<JobStore>;

function writeStatements(opened: OpenedJobs): void {
  test('a job comes back as it was stored, whatever stands in its texts', async () => {
    const { store } = opened();
    const full = sampleJob('user/42 α📦\u0000%{tag}', {
      payload: 'x\u0000y \u2028 "quoted"',
      description: 'for people',
      stateReason: 'because',
      state: 'error',
      number: 2 ** 36 - 1,
      version: 65_537,
      bounds: { startMs: 1, endMs: 253_402_300_799_999, spreadMs: 7, calendars: ['holidays'] },
      misfire: { mode: 'all', maxAgeMs: 1, maxNumber: 2, maxPerSecond: 3 },
    });
    expect(await store.insertMany([full])).toEqual([true]);
    expect(await store.get('team', full.key)).toEqual(full);
    const { labels: _labels, ...plain } = sampleJob('plain', { bounds: {}, number: 2 });
    await store.insertMany([plain]);
    const stored = await store.get('team', 'plain');
    expect(stored).toStrictEqual(plain);
  });

  test('labels have any names: those of prototypes, of operators and paths, with NUL, empty (O-SC-04, O-SC-05)', async () => {
    const { store } = opened();
    const text = '{"__proto__":"p","constructor":"c","$set":"s","a.b":"d","x\\u0000y":"n\\u0000","":"e"}';
    await store.insertMany([sampleJob('labelled', { labels: JSON.parse(text) as Record<string, string> })]);
    const stored = (await (await reopened(opened())).get('team', 'labelled'))!;
    expect(JSON.stringify(stored.labels)).toBe(text);
    expect(Object.getPrototypeOf(stored.labels)).toBe(Object.prototype);
  });

  test('what is not there is null, and keys are exact: case, spaces and the cluster count', async () => {
    const { store } = opened();
    await store.insertMany([sampleJob('a', { number: 1 }), sampleJob(' a', { number: 2 })]);
    expect(await store.get('team', 'A')).toBeNull();
    expect(await store.get('other', 'a')).toBeNull();
    expect((await store.get('team', ' a'))!.number).toBe(2);
  });

  test('a stored job is a value: changing what was given or answered changes nothing stored', async () => {
    const { store } = opened();
    const given = sampleJob('value');
    await store.insertMany([given]);
    given.labels!['owner'] = 'changed';
    (await store.get('team', 'value'))!.bounds.endMs = 1;
    expect(await store.get('team', 'value')).toEqual(sampleJob('value'));
  });

  test('insertLines stores the jobs that lines make, with all that stands in their texts, and answers as insertMany', async () => {
    const { store } = opened();
    const definitions: Partial<JobDefinition>[] = [
      {},
      { payload: '"ä📦 \\u0000"', description: 'for people', labels: { 'a.b': 'c', $set: 's' } },
      { schedule: { kind: 'rate', everyMs: 60_000, anchorMs: 5 }, bounds: { startMs: 1, spreadMs: 7 }, labels: {} },
      {
        schedule: { kind: 'cron', expression: '0 9 * * *', zone: 'Europe/Paris' },
        misfire: { mode: 'all', maxNumber: 2 },
      },
    ];
    const writer = new LinesWriter({ cluster: 'team', operation: 'bulk', atMs: 1_780_000_000_000 });
    for (const [n, more] of definitions.entries()) {
      const definition = { ...sampleDefinition, ...more };
      const { schedule } = definition;
      writer.add({
        key: `line ${n} α📦`,
        line: n,
        paused: n === 3 ? true : undefined,
        definition,
        schedule,
        firstMs: 7,
      });
    }
    const lines = readLines(writer.take()!).map((line, n) => ({
      ...line,
      shard: 3,
      number: n + 1,
      partition: 2,
      offset: 9,
    }));
    await store.insertMany([sampleJob('line 1 α📦', { number: 77 })]);
    expect(await store.insertLines(lines)).toEqual([true, false, true, true]);
    expect(await store.insertLines([])).toEqual([]);
    for (const [n, line] of lines.entries()) {
      const stored = await store.get('team', line.key);
      if (n === 1) expect(stored!.number).toBe(77);
      else expect(stored).toStrictEqual(jobOfLine(line));
    }
    expect(await store.using({ zones: ['Europe/Paris'] }, null, 10)).toEqual([
      expect.objectContaining({ key: 'line 1 α📦' }),
      expect.objectContaining({ key: 'line 3 α📦', state: 'paused' }),
    ]);
  });

  test('insertMany answers per job: those whose key exists stay out, the others go in', async () => {
    const { store } = opened();
    expect(await store.insertMany([])).toEqual([]);
    await store.insertMany([
      sampleJob('b', { number: 1 }),
      sampleJob('gone', { number: 2, deleted: true, state: 'terminated' }),
    ]);
    const jobs = [
      sampleJob('a', { number: 3 }),
      sampleJob('b', { number: 4, payload: 'other' }),
      sampleJob('gone', { number: 5 }),
      sampleJob('b', { cluster: 'other', number: 6 }),
      sampleJob('a', { number: 7, payload: 'second of the batch' }),
      sampleJob('c', { number: 8 }),
    ];
    expect(await store.insertMany(jobs)).toEqual([true, false, false, true, false, true]);
    expect(await store.get('team', 'a')).toMatchObject({ number: 3, payload: '{"order": 1}' });
    expect(await store.get('team', 'b')).toMatchObject({ number: 1 });
    expect(await store.get('team', 'gone')).toMatchObject({ deleted: true });
  });

  test('5,000 jobs at once, and 10,000 keys asked for at once; missing ones are left out, tombstones are not', async () => {
    const { store } = opened();
    const jobs = Array.from({ length: 5_000 }, (_, i) =>
      sampleJob(`job-${i}`, { number: i, ...(i === 7 ? { deleted: true } : {}) }),
    );
    expect((await store.insertMany(jobs)).every(Boolean)).toBe(true);
    const keys = Array.from({ length: 10_000 }, (_, i) => ({ cluster: 'team', key: `job-${i}` }));
    const found = await store.getMany(keys);
    expect(found).toHaveLength(5_000);
    expect(new Set(found.map((job) => job.key)).size).toBe(5_000);
    expect(found.find((job) => job.key === 'job-7')!.deleted).toBe(true);
    expect(await store.getMany([])).toEqual([]);
  });

  test('replaceMany is a compare-and-set on version and position, per job', async () => {
    const { store } = opened();
    await store.insertMany(['a', 'b', 'c', 'd'].map((key, i) => sampleJob(key, { number: i })));
    const next = (key: string, fields: Partial<Job> = {}): Job =>
      sampleJob(key, { version: 2, payload: 'new', position: { partition: 2, offset: 20 }, ...fields });
    expect(await store.replaceMany([])).toEqual([]);
    expect(
      await store.replaceMany([
        { job: next('a', { number: 0 }), expected: { version: 1, offset: 10 } },
        { job: next('b', { number: 1 }), expected: { version: 2, offset: 10 } },
        { job: next('c', { number: 2 }), expected: { version: 1, offset: 11 } },
        { job: next('missing', { number: 9 }), expected: { version: 1, offset: 10 } },
        { job: next('d', { number: 3, deleted: true }), expected: { version: 1, offset: 10 } },
        { job: next('a', { number: 0, version: 3 }), expected: { version: 1, offset: 10 } },
      ]),
    ).toEqual([true, false, false, false, true, false]);
    expect(await store.get('team', 'a')).toEqual(next('a', { number: 0 }));
    expect(await store.get('team', 'b')).toMatchObject({ version: 1, payload: '{"order": 1}' });
    expect(await store.get('team', 'c')).toMatchObject({ version: 1 });
    expect(await store.get('team', 'missing')).toBeNull();
    expect((await store.get('team', 'd'))!.deleted).toBe(true);
  });

  test('of two replacements from the same state one wins', async () => {
    const { store } = opened();
    await store.insertMany([sampleJob('contested')]);
    const tries = Array.from({ length: 8 }, (_, i) =>
      store.replaceMany([
        {
          job: sampleJob('contested', { version: 2, payload: `${i}`, position: { partition: 2, offset: 20 + i } }),
          expected: { version: 1, offset: 10 },
        },
      ]),
    );
    const won = (await Promise.all(tries)).flat();
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(await store.get('team', 'contested')).toMatchObject({ payload: `${won.indexOf(true)}` });
  });

  test('a replacement leaves no field of the former version behind, and a tombstone may become a job again', async () => {
    const { store } = opened();
    await store.insertMany([sampleJob('again', { deleted: true, stateReason: 'old', description: 'old' })]);
    const job = sampleJob('again', { version: 2, number: 77, position: { partition: 2, offset: 11 } });
    expect(await store.replaceMany([{ job, expected: { version: 1, offset: 10 } }])).toEqual([true]);
    expect(await store.get('team', 'again')).toStrictEqual(job);
  });
}

function endStatements(opened: OpenedJobs): void {
  const endings = (): Job[] => [
    sampleJob('live', { number: 1, version: 3 }),
    sampleJob('newer', { number: 2, version: 4 }),
    sampleJob('paused', { number: 3, version: 3, state: 'paused' }),
    sampleJob('deleted', { number: 4, version: 3, deleted: true }),
    sampleJob('elsewhere', { number: 1, version: 3, shard: 4 }),
  ];
  const asked = [1, 2, 3, 4, 5].map((number) => ({ shard: 3, number, version: 3 }));

  test('finish marks enabled jobs of these shards and versions', async () => {
    const { store } = opened();
    await store.insertMany(endings());
    await store.finish([], 5);
    await store.finish(asked, 1_785_000_000_000);
    expect(await store.get('team', 'live')).toEqual({
      ...endings()[0]!,
      state: 'finished',
      updatedMs: 1_785_000_000_000,
    });
    for (const job of endings().slice(1)) expect(await store.get('team', job.key)).toEqual(job);
    await store.finish(asked, 1_785_000_000_001);
    expect((await store.get('team', 'live'))?.updatedMs).toBe(1_785_000_000_000);
    const others = [
      { shard: 4, number: 1, version: 3 },
      { shard: 3, number: 2, version: 4 },
    ];
    await store.finish([...asked, ...others], 1_785_000_000_002);
    for (const key of ['newer', 'elsewhere']) expect((await store.get('team', key))?.state).toBe('finished');
    for (const key of ['paused', 'deleted']) expect((await store.get('team', key))?.state).not.toBe('finished');
  });

  test('fail stores state and reason where the version is still this one, tombstones left alone', async () => {
    const { store } = opened();
    await store.insertMany(endings());
    const failed = asked.map(({ number, version }) => ({ number, version, reason: `broken ${number}` }));
    expect(await store.fail(3, [], 5)).toBe(0);
    expect(await store.fail(3, failed, 1_785_000_000_000)).toBe(2);
    expect(await store.get('team', 'live')).toEqual({
      ...endings()[0]!,
      state: 'error',
      stateReason: 'broken 1',
      updatedMs: 1_785_000_000_000,
    });
    expect(await store.get('team', 'paused')).toMatchObject({ state: 'error', stateReason: 'broken 3' });
    for (const i of [1, 3, 4]) expect(await store.get('team', endings()[i]!.key)).toEqual(endings()[i]);
  });

  test('2,000 jobs end at once', async () => {
    const { store } = opened();
    const jobs = Array.from({ length: 2_000 }, (_, i) => sampleJob(`j-${i}`, { number: i }));
    await store.insertMany(jobs);
    await store.finish(
      jobs.map((job) => ({ shard: 3, number: job.number, version: 1 })),
      5,
    );
    expect(await store.counts('team')).toMatchObject({ enabled: 0, finished: 2_000 });
  });

  test('sweep removes tombstones of one partition below an offset, so that the key is free again', async () => {
    const { store } = opened();
    const tombstone = (key: string, partition: number, offset: number, number: number): Job =>
      sampleJob(key, { deleted: true, number, position: { partition, offset } });
    await store.insertMany([
      tombstone('old-1', 2, 5, 1),
      tombstone('old-2', 2, 9, 2),
      tombstone('at', 2, 10, 3),
      tombstone('other', 1, 5, 4),
      sampleJob('live', { number: 5, position: { partition: 2, offset: 1 } }),
    ]);
    expect(await store.sweep(2, 10, 1)).toBe(1);
    expect(await store.sweep(2, 10, 100)).toBe(1);
    expect(await store.sweep(2, 10, 100)).toBe(0);
    for (const key of ['old-1', 'old-2']) expect(await store.get('team', key)).toBeNull();
    for (const key of ['at', 'other', 'live']) expect(await store.get('team', key)).not.toBeNull();
    expect(await store.insertMany([sampleJob('old-1', { number: 6 })])).toEqual([true]);
  });

  test('jobs are there after a restart', async () => {
    const { store } = opened();
    await store.insertMany([sampleJob('a', { number: 1 }), sampleJob('b', { number: 2, deleted: true })]);
    await store.replaceMany([{ job: sampleJob('a', { number: 1, version: 2 }), expected: { version: 1, offset: 10 } }]);
    const again = await reopened(opened());
    expect(await again.get('team', 'a')).toEqual(sampleJob('a', { number: 1, version: 2 }));
    expect((await again.get('team', 'b'))!.deleted).toBe(true);
  });
}

/** Every statement of `src/ports/job-store.ts` as a test. */
export function jobStoreContract(name: string, open: () => Promise<StoreOpening<JobStore>>): void {
  describe(`job store: ${name}`, () => {
    let opening: StoreOpening<JobStore>;
    beforeEach(async () => {
      opening = await open();
    });
    afterEach(async () => {
      await opening?.close();
    });
    writeStatements(() => opening);
    endStatements(() => opening);
    oneShotStatements(() => opening);
    jobListStatements(() => opening);
  });
}
