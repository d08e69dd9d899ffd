import { expect, test } from 'vitest';
import type { Job } from '../../src/core/job.ts';
import type { JobQuery, JobStore } from '../../src/ports/job-store.ts';
import type { OpenedJobs } from './job-store.contract.ts';
import { sampleJob } from './samples.ts';

/** All pages of a list, each checked for its bound. */
async function pages(store: JobStore, query: JobQuery): Promise<string[]> {
  const keys: string[] = [];
  let after = query.afterKey;
  for (;;) {
    const page = await store.list({ ...query, ...(after === undefined ? {} : { afterKey: after }) });
    expect(page.jobs.length).toBeLessThanOrEqual(query.limit);
    keys.push(...page.jobs.map((job) => job.key));
    if (page.next === null) return keys;
    expect(page.jobs).not.toHaveLength(0);
    expect(page.next).toBe(page.jobs.at(-1)!.key);
    after = page.next;
  }
}

const withKeys = (keys: readonly string[], fields: (i: number) => Partial<Job> = () => ({})): Job[] =>
  keys.map((key, i) => sampleJob(key, { number: i, ...fields(i) }));

export function jobListStatements(opened: OpenedJobs): void {
  test('list: by key in binary order of UTF-8, page by page, without tombstones and other clusters', async () => {
    const { store } = opened();
    // U+FF5E is before U+1F4E6 in UTF-8 and after it in UTF-16; upper case is before lower case.
    const keys = ['~', 'b', 'a/1', 'B', 'a', 'é', '～', '📦', '10', '9', 'a!', 'ab'];
    await store.insertMany(withKeys(keys));
    await store.insertMany([
      sampleJob('aa', { number: 50, deleted: true }),
      sampleJob('a0', { cluster: 'other', number: 51 }),
    ]);
    const expected = [...keys].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
    for (const limit of [1, 3, 4, 12, 100]) {
      expect(await pages(store, { cluster: 'team', limit })).toEqual(expected);
    }
    expect(await pages(store, { cluster: 'team', limit: 5, afterKey: 'a/0' })).toEqual(expected.slice(5));
    expect(await pages(store, { cluster: 'nobody', limit: 5 })).toEqual([]);
  });

  test('list: a prefix is plain text, whatever characters it has', async () => {
    const { store } = opened();
    const keys = [
      'a%b',
      'a%',
      'a_b',
      'axb',
      'a.b',
      'a*b',
      'a',
      'A%',
      '📦1',
      '📦2',
      '📧',
      '\u{10ffff}z',
      'a\u{10ffff}',
      '[a]',
    ];
    await store.insertMany(withKeys(keys));
    for (const prefix of ['a%', 'a_', 'a.', 'a*', 'a', '📦', '', '\u{10ffff}', '[', 'nothing']) {
      const expected = keys.filter((key) => key.startsWith(prefix));
      expect((await pages(store, { cluster: 'team', limit: 2, prefix })).sort()).toEqual(expected.sort());
    }
    expect(await pages(store, { cluster: 'team', limit: 2, prefix: 'a', afterKey: 'a.' })).toEqual([
      'a.b',
      'a_b',
      'axb',
      'a\u{10ffff}',
    ]);
  });

  test('list: by state, also together with a prefix', async () => {
    const { store } = opened();
    const keys = Array.from({ length: 40 }, (_, i) => `${i % 2 === 0 ? 'even' : 'odd'}-${String(i).padStart(2, '0')}`);
    await store.insertMany(withKeys(keys, (i) => ({ state: i % 3 === 0 ? 'paused' : 'enabled' })));
    const paused = keys.filter((_, i) => i % 3 === 0).sort();
    expect(await pages(store, { cluster: 'team', limit: 3, state: 'paused' })).toEqual(paused);
    expect(await pages(store, { cluster: 'team', limit: 3, state: 'paused', prefix: 'odd' })).toEqual(
      paused.filter((key) => key.startsWith('odd')),
    );
    expect(await pages(store, { cluster: 'team', limit: 3, state: 'error' })).toEqual([]);
  });

  test('byShard: by number, after a number, without tombstones and other shards', async () => {
    const { store } = opened();
    const jobs = [5, 1, 2 ** 33, 300, 17].map((number) => sampleJob(`n-${number}`, { number }));
    await store.insertMany([
      ...jobs,
      sampleJob('tombstone', { number: 6, deleted: true }),
      sampleJob('other', { number: 7, shard: 4 }),
    ]);
    const numbers = async (after: number, limit: number): Promise<number[]> =>
      (await store.byShard(3, after, limit)).map((job) => job.number);
    expect(await numbers(-1, 100)).toEqual([1, 5, 17, 300, 2 ** 33]);
    expect(await numbers(1, 2)).toEqual([5, 17]);
    expect(await numbers(17, 2)).toEqual([300, 2 ** 33]);
    expect(await numbers(2 ** 33, 2)).toEqual([]);
    expect((await store.byShard(3, 4, 1))[0]).toEqual(sampleJob('n-5', { number: 5 }));
    expect(await store.byShard(99, -1, 10)).toEqual([]);
  });

  test('versions: number, version, state and time of the last change of the same jobs', async () => {
    const { store } = opened();
    const jobs = [5, 1, 2 ** 33].map((number) => sampleJob(`n-${number}`, { number, version: number + 1 }));
    await store.insertMany([
      ...jobs,
      sampleJob('paused', { number: 2, state: 'paused' }),
      sampleJob('tombstone', { number: 6, deleted: true }),
      sampleJob('other', { number: 7, shard: 4 }),
    ]);
    const of = ({ number, version, state, updatedMs }: Job) => ({ number, version, state, updatedMs });
    const all = await store.byShard(3, -1, 100);
    expect(all).toHaveLength(4);
    expect(await store.versions(3, -1, 100)).toEqual(all.map(of));
    expect(await store.versions(3, 1, 2)).toEqual(all.slice(1, 3).map(of));
    expect(await store.versions(99, -1, 10)).toEqual([]);
  });

  test('using: jobs of a zone or a calendar, by cluster and key, with paging, without tombstones', async () => {
    const { store } = opened();
    const cron = (zone: string): Partial<Job> => ({ schedule: { kind: 'cron', expression: '0 9 * * *', zone } });
    await store.insertMany([
      sampleJob('p1', { number: 1, ...cron('Europe/Paris') }),
      sampleJob('o1', { number: 2, ...cron('Europe/Oslo') }),
      sampleJob('t1', { number: 3, ...cron('Asia/Tokyo'), bounds: { calendars: ['a', 'holidays'] } }),
      sampleJob('a1', { cluster: 'zeta', number: 4, ...cron('Europe/Paris') }),
      sampleJob('z1', { cluster: 'alpha', number: 5, ...cron('Europe/Oslo'), bounds: { calendars: ['holidays'] } }),
      sampleJob('rate', { number: 6, schedule: { kind: 'rate', everyMs: 1_000, anchorMs: 5 } }),
      sampleJob('gone', { number: 7, deleted: true, ...cron('Europe/Paris'), bounds: { calendars: ['holidays'] } }),
    ]);
    const using = async (what: Parameters<JobStore['using']>[0], limit: number): Promise<string[]> => {
      const names: string[] = [];
      for (let after: { cluster: string; key: string } | null = null; ; ) {
        const jobs: Job[] = await store.using(what, after, limit);
        expect(jobs.length).toBeLessThanOrEqual(limit);
        if (jobs.length === 0) return names;
        names.push(...jobs.map((job) => `${job.cluster}/${job.key}`));
        after = { cluster: jobs.at(-1)!.cluster, key: jobs.at(-1)!.key };
      }
    };
    for (const limit of [1, 2, 10]) {
      expect(await using({ zones: ['Europe/Paris', 'Europe/Oslo'] }, limit)).toEqual([
        'alpha/z1',
        'team/o1',
        'team/p1',
        'zeta/a1',
      ]);
      expect(await using({ calendar: 'holidays' }, limit)).toEqual(['alpha/z1', 'team/t1']);
    }
    expect(await using({ zones: [] }, 5)).toEqual([]);
    expect(await using({ calendar: 'holiday' }, 5)).toEqual([]);
  });

  test('using follows a replacement', async () => {
    const { store } = opened();
    await store.insertMany([sampleJob('moves', { bounds: { calendars: ['a', 'b'] } })]);
    const job = sampleJob('moves', {
      version: 2,
      bounds: { calendars: ['b', 'c'] },
      schedule: { kind: 'cron', expression: '0 9 * * *', zone: 'Asia/Tokyo' },
    });
    await store.replaceMany([{ job, expected: { version: 1, offset: 10 } }]);
    const found = async (what: Parameters<JobStore['using']>[0]): Promise<number> =>
      (await store.using(what, null, 10)).length;
    expect(await found({ calendar: 'a' })).toBe(0);
    expect(await found({ calendar: 'b' })).toBe(1);
    expect(await found({ calendar: 'c' })).toBe(1);
    expect(await found({ zones: ['Europe/Paris'] })).toBe(0);
    expect(await found({ zones: ['Asia/Tokyo'] })).toBe(1);
  });

  test('using: jobs that move, until they do no more, without tombstones', async () => {
    const { store } = opened();
    const from = { shard: 1, number: 77 };
    await store.insertMany([
      sampleJob('stays'),
      sampleJob('begun', { move: { cutMs: 5 } }),
      sampleJob('gone', { move: { cutMs: 5, from } }),
      sampleJob('deleted', { move: { cutMs: 5, from }, deleted: true }),
    ]);
    const moving = async (after: Job | null, limit: number): Promise<string[]> =>
      (await store.using({ moving: true }, after, limit)).map(({ key }) => key);
    expect(await moving(null, 10)).toEqual(['begun', 'gone']);
    expect(await moving(null, 1)).toEqual(['begun']);
    expect(await moving(sampleJob('begun'), 10)).toEqual(['gone']);
    const arrived = sampleJob('gone', { position: { partition: 2, offset: 11 } });
    await store.replaceMany([{ job: arrived, expected: { version: 1, offset: 10 } }]);
    expect(await moving(null, 10)).toEqual(['begun']);
    expect(await store.get('team', 'begun')).toEqual(sampleJob('begun', { move: { cutMs: 5 } }));
  });

  test('counts by state, every state named, of one cluster or of all, without tombstones', async () => {
    const { store } = opened();
    const none = { enabled: 0, paused: 0, finished: 0, terminated: 0, error: 0 };
    expect(await store.counts()).toEqual(none);
    await store.insertMany([
      sampleJob('a', { number: 1 }),
      sampleJob('b', { number: 2, state: 'paused' }),
      sampleJob('c', { number: 3, state: 'paused' }),
      sampleJob('d', { number: 4, state: 'error' }),
      sampleJob('e', { number: 5, deleted: true }),
      sampleJob('f', { number: 6, cluster: 'other', state: 'terminated' }),
    ]);
    expect(await store.counts('team')).toEqual({ ...none, enabled: 1, paused: 2, error: 1 });
    expect(await store.counts()).toEqual({ ...none, enabled: 1, paused: 2, error: 1, terminated: 1 });
    expect(await store.counts('nobody')).toEqual(none);
    await store.finish([{ shard: 3, number: 1, version: 1 }], 5);
    expect(await store.counts('team')).toEqual({ ...none, finished: 1, paused: 2, error: 1 });
  });
}
