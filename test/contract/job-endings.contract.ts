import { expect, test } from 'vitest';
import type { Job } from '../../src/core/job.ts';
import type { JobStore } from '../../src/ports/job-store.ts';
import { reopened, type StoreOpening } from './opening.ts';
import { sampleJob } from './samples.ts';

const JOBS = 1_200;
const RECORDED_MS = 1_785_000_000_000;
const SCHEDULE = { kind: 'once', atMs: 1_784_999_999_000 } as const;

/** One-shots of three shards, more of them than a store would mark one by one. */
const oneShots = (): Job[] =>
  Array.from({ length: JOBS }, (_unused, i) =>
    sampleJob(`once-${String(i).padStart(4, '0')}`, { schedule: SCHEDULE, bounds: {}, shard: i % 3, number: i }),
  );

const finishing = (jobs: readonly Job[]) =>
  jobs.map(({ shard, number, version, cluster }) => ({ shard, number, version, oneShotOf: cluster }));

async function folded(store: JobStore): Promise<number> {
  let jobs = 0;
  for (let some = await store.fold(); some > 0; some = await store.fold()) jobs += some;
  return jobs;
}

/** `src/ports/job-endings.ts` for many one-shots, which a store may keep in blocks. */
export function oneShotStatements(opened: () => StoreOpening<JobStore>): void {
  const filled = async (): Promise<JobStore> => {
    const { store } = opened();
    await store.insertMany(oneShots());
    return store;
  };
  const expected = (job: Job): Job => ({ ...job, state: 'finished', updatedMs: RECORDED_MS });

  test('every way to read a job tells that it is finished, before and after it is folded', async () => {
    const store = await filled();
    const jobs = oneShots();
    const [finished, left] = [jobs.slice(0, 900), jobs.slice(900)];
    await store.finish(finishing(finished), RECORDED_MS);
    const wanted = [...finished.map(expected), ...left];
    for (const fold of [false, true]) {
      if (fold) await folded(store);
      expect(await store.get('team', 'once-0007')).toEqual(wanted[7]);
      expect(await store.get('team', 'once-1000')).toEqual(wanted[1_000]);
      const many = await store.getMany(jobs);
      expect(many.sort((a, b) => a.number - b.number)).toEqual(wanted);
      expect((await store.list({ cluster: 'team', limit: 2_000 })).jobs).toEqual(wanted);
      const ofShard = wanted.filter(({ shard }) => shard === 1);
      expect(await store.byShard(1, -1, 2_000)).toEqual(ofShard);
      expect(await store.versions(1, -1, 2_000)).toEqual(
        ofShard.map(({ number, version, state, updatedMs }) => ({ number, version, state, updatedMs })),
      );
      expect(await store.counts('team')).toMatchObject({ enabled: 300, finished: 900 });
      expect(await store.counts('other')).toMatchObject({ enabled: 0, finished: 0 });
      expect(await store.counts()).toMatchObject({ enabled: 300, finished: 900 });
      expect((await store.list({ cluster: 'team', state: 'enabled', limit: 2_000 })).jobs).toEqual(left);
    }
    expect((await store.list({ cluster: 'team', state: 'finished', limit: 2_000 })).jobs).toEqual(wanted.slice(0, 900));
  });

  test('pages of enabled jobs come to their end where all of one are finished meanwhile', async () => {
    const store = await filled();
    const jobs = oneShots();
    await store.finish(finishing(jobs.slice(0, 1_100)), RECORDED_MS);
    const keys: string[] = [];
    let after: string | null = null;
    do {
      const query = { cluster: 'team', state: 'enabled', limit: 100 } as const;
      const page = await store.list(after === null ? query : { ...query, afterKey: after });
      keys.push(...page.jobs.map(({ key }) => key));
      after = page.next;
    } while (after !== null);
    expect(keys).toEqual(jobs.slice(1_100).map(({ key }) => key));
  });

  test('a newer version, a paused, a failed and a deleted job are left alone, before and after they are folded', async () => {
    const store = await filled();
    const jobs = oneShots();
    const changed = (i: number, fields: Partial<Job>): Job => ({
      ...jobs[i]!,
      ...fields,
      position: { partition: 2, offset: 11 },
    });
    const changes = [
      changed(0, { version: 2, schedule: { kind: 'once', atMs: 1_799_999_999_000 } }),
      changed(1, { version: 2, state: 'paused' }),
      changed(2, { deleted: true }),
    ];
    const replace = changes.map((job) => ({ job, expected: { version: 1, offset: 10 } }));
    // One of them is changed after its end was recorded, the others before.
    await store.replaceMany(replace.slice(1));
    await store.fail(jobs[3]!.shard, [{ number: 3, version: 1, reason: 'why' }], 7);
    await store.finish(finishing(jobs), RECORDED_MS);
    expect(await store.replaceMany(replace.slice(0, 1))).toEqual([true]);
    const failed = { ...jobs[3]!, state: 'error', stateReason: 'why', updatedMs: 7 };
    for (const fold of [false, true]) {
      if (fold) await folded(store);
      for (const job of [...changes, failed]) expect(await store.get('team', job.key)).toEqual(job);
    }
    expect(await store.counts('team')).toMatchObject({ enabled: 1, paused: 1, error: 1, finished: JOBS - 4 });
  });

  test('a record that came twice, and a fold at two places at once, change nothing', async () => {
    const store = await filled();
    const jobs = oneShots();
    await store.finish(finishing(jobs), RECORDED_MS);
    await store.finish(finishing(jobs), RECORDED_MS + 1_000);
    const again = await reopened(opened());
    expect(await again.get('team', 'once-0001')).toMatchObject({ state: 'finished' });
    await Promise.all([folded(again), folded(again)]);
    expect(await again.counts('team')).toMatchObject({ enabled: 0, finished: JOBS });
    expect(await again.fold()).toBe(0);
    const { jobs: listed } = await again.list({ cluster: 'team', state: 'finished', limit: 2_000 });
    expect(listed).toHaveLength(JOBS);
  });
}
