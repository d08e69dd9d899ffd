import { describe, expect, it } from 'vitest';
import type { Change } from '../../../src/core/messages.ts';
import { newOperation } from '../../../src/management/bulk/upload.ts';
import { ApplierRun, Crash, toldOf, untold } from './applier-run.ts';
import { change, NOON, put } from './samples.ts';

const near = put({ schedule: { kind: 'rate', everyMs: 5_000 } });
/** No rate: that would keep the grid of the job that it replaces, whose next time is near. */
const far = put({ schedule: { kind: 'cron', expression: '0 3 * * *' } });
const reply = { replyTo: 'api-1' };

/** What stands before: jobs near and far of the horizon. */
const before: Change[] = ['b', 'c', 'd', 'e', 'g', 'k', 'm'].map((key) => change(near, { key, ...reply }));

/** Every kind of change, alone and behind one another on one key. */
function changes(): Change[] {
  const of = (key: string, action: Change['action'], ms: number, more: Partial<Change> = {}): Change =>
    change(action, { key, atMs: NOON + ms, ...reply, ...more });
  const line = (n: number, key: string, action: Change['action']): Change =>
    change(action, { id: `bulk/${n}`, key, atMs: NOON + 50, operation: { key: 'bulk', line: n } });
  const fire = of('e', { kind: 'fire', requestKey: 'r1' }, 12);
  return [
    of('a', near, 1),
    of('b', far, 2),
    of('b', put({ schedule: { kind: 'rate', everyMs: 7_200_000 } }), 3),
    of('c', { kind: 'delete' }, 4),
    of('c', near, 5),
    of('d', { kind: 'pause' }, 6),
    of('d', { kind: 'resume' }, 7),
    of('d', { kind: 'terminate' }, 8),
    of('d', near, 9),
    of('e', put({ schedule: { kind: 'rate', everyMs: 5_000 }, payload: '"new"' }), 11),
    fire,
    { ...fire },
    of('e', put({ schedule: { kind: 'rate', everyMs: 5_000 }, payload: '"newer"' }), 13),
    of('f', put({ schedule: { kind: 'cron', expression: 'never' } }), 14),
    of('g', near, 15),
    of('h', near, 16),
    of('h', { kind: 'delete' }, 17),
    of('i', far, 18),
    of('i', { kind: 'delete' }, 19),
    of('i', near, 20),
    of('k', { kind: 'delete' }, 21),
    of('k', near, 22),
    of('k', { kind: 'delete' }, 23),
    of('k', far, 24),
    of('k', { kind: 'delete' }, 25),
    of('l', { kind: 'pause' }, 26),
    of('m', { kind: 'fire', requestKey: 'r2' }, 27),
    of('n', near, 28, { ifVersion: 4 }),
    line(1, 'x1', near),
    line(2, 'x2', far),
    line(3, 'g', near),
    line(4, 'x3', put({ schedule: { kind: 'cron', expression: '61 * * * *' } })),
    line(5, 'x1', far),
    line(5, 'x1', far),
    change(near, { key: 'y', cluster: 'nobody', ...reply }),
  ];
}

const given = changes();

async function opened(): Promise<ApplierRun> {
  const run = new ApplierRun();
  await run.open();
  await run.stores.operations.start(newOperation('team', 'bulk', NOON));
  await run.send(before);
  await run.applyAll();
  await run.send(given);
  return run;
}

describe('the applier', () => {
  it('answers every change in order and tells owners once per job what is near', async () => {
    const run = await opened();
    await run.applyAll();
    const { answers, fast, counts, errors, committed } = await run.seen('bulk');
    expect(committed).toBe(before.length + given.length);
    const asked = given.filter(({ replyTo }) => replyTo !== undefined);
    expect(answers.slice(before.length).map((answer) => answer!.id)).toEqual(asked.map(({ id }) => id));
    expect(counts).toEqual({ created: 2, updated: 1, unchanged: 1, failed: 1 });
    expect(errors).toMatchObject([{ line: 4, jobKey: 'x3', code: 'schedule-invalid' }]);
    const told = fast.slice().filter(({ result }) => result !== 'created');
    // b left the wheel, d and e changed in it; c and k left their places; two runs by hand.
    expect(untold(await run.seen())).toEqual([]);
    expect(told.map(({ result }) => result).sort()).toEqual([
      'deleted',
      'deleted',
      'fired',
      'fired',
      'updated',
      'updated',
      'updated',
    ]);
  });

  it('keeps a job out of the trigger store when it is paused, ended or deleted', async () => {
    const run = await opened();
    await run.applyAll();
    const { jobs, members } = await run.seen();
    const enabled = jobs.filter((job) => job.state === 'enabled');
    expect(members).toBe(enabled.length);
    expect(jobs.map((job) => job.key)).toEqual(['a', 'b', 'c', 'd', 'e', 'g', 'i', 'm', 'x1', 'x2']);
  });

  it.each([1, 3, 1_000])('in batches of %i the documents and members are the same', async (size) => {
    const whole = await opened();
    await whole.applyAll();
    const parts = await opened();
    await parts.applyAll(size);
    const [a, b] = [await whole.seen('bulk'), await parts.seen('bulk')];
    const plain = (jobs: object[]) => jobs.map((job) => ({ ...job, replay: undefined }));
    expect(plain(b.jobs)).toEqual(plain(a.jobs));
    expect(b).toMatchObject({ members: a.members, counts: a.counts, errors: a.errors, committed: a.committed });
  });

  describe.each(['before', 'after'] as const)('a crash %s any call to a store, and the same records again', (when) => {
    it.each([1_000, 3])(
      'ends in the same state, messages, answers and counts (first in batches of %i)',
      async (size) => {
        const whole = await opened();
        const calls = new Crash(-1, when);
        await whole.applyAll(size, calls);
        const expected = await whole.seen('bulk');
        expect(calls.calls).toBeGreaterThan(10);

        for (let at = 0; at < calls.calls; at++) {
          const run = await opened();
          await expect(run.applyAll(size, new Crash(at, when)), `call ${at}`).rejects.toThrow('crash');
          await run.applyAll(size);
          expect(await run.seen('bulk'), `crash ${when} call ${at} of ${calls.calls}`).toEqual(expected);
        }
      },
    );

    it('after a crash the next incarnation may cut its batches elsewhere', async () => {
      const whole = await opened();
      const calls = new Crash(-1, when);
      await whole.applyAll(1_000, calls);
      const wantedAll = await whole.seen('bulk');
      const { jobs: wanted, ...others } = wantedAll;
      const plain = (jobs: object[]) => jobs.map((job) => ({ ...job, replay: undefined }));
      for (let at = 0; at < calls.calls; at++) {
        for (const size of [1, 4, 11]) {
          const run = await opened();
          await expect(run.applyAll(1_000, new Crash(at, when))).rejects.toThrow('crash');
          await run.applyAll(size);
          const all = await run.seen('bulk');
          const { jobs, members, counts, errors } = all;
          // More may be told, never less.
          expect(toldOf(all)).toEqual(expect.arrayContaining(toldOf(wantedAll)));
          expect(untold(all)).toEqual([]);
          expect(plain(jobs), `crash ${when} call ${at}, then batches of ${size}`).toEqual(plain(wanted));
          expect({ members, counts, errors }).toEqual({
            members: others.members,
            counts: others.counts,
            errors: others.errors,
          });
        }
      }
    });
  });

  it('a job that its owner has finished before it was told of it is told all the same', async () => {
    const run = new ApplierRun();
    await run.open();
    await run.send([change(put({ schedule: { kind: 'once', atMs: NOON + 5_000 } }), { key: 'late' })]);
    await expect(run.applyAll(1_000, new Crash(0, 'before', 'commit'))).rejects.toThrow('crash');
    const { jobs, triggers } = run.stores;
    const [job] = (await jobs.list({ cluster: 'team', limit: 1 })).jobs;
    const { shard, number, version } = job!;
    await triggers.writeBack(shard, 1, [{ number, version, score: 0 }]);
    await jobs.finish([{ shard, number, version }], NOON + 6_000);
    await triggers.removeFinished(shard, [{ number, version }]);
    await run.applyAll();
    const { fast } = await run.seen();
    expect(fast.map(({ record, score }) => [record?.key, record?.state, score])).toEqual([
      ['late', 'enabled', NOON + 5_000],
    ]);
  });

  it('a job that was finished before it moved is not made to fire by a crash of the applier', async () => {
    const run = new ApplierRun();
    await run.open();
    const key = 'over';
    await run.send([change(put({ schedule: { kind: 'once', atMs: NOON + 5_000 } }), { key })]);
    await run.applyAll();
    const { jobs, triggers } = run.stores;
    const [job] = (await jobs.list({ cluster: 'team', limit: 1 })).jobs;
    const { shard, number, version } = job!;
    await jobs.finish([{ shard, number, version }], NOON + 6_000);
    await triggers.removeFinished(shard, [{ number, version }]);
    const told = (await run.seen()).fast.length;
    await run.send([change({ kind: 'move', step: 'begin', cutMs: NOON + 127_000 }, { key, atMs: NOON + 7_000 })]);
    // Of the two places it is the new one that is not told.
    await expect(run.applyAll(1_000, new Crash(1, 'before', 'add'))).rejects.toThrow('crash');
    await run.applyAll();
    const [moved] = (await jobs.list({ cluster: 'team', limit: 1 })).jobs;
    expect(moved).toMatchObject({ version: 2, state: 'finished' });
    expect([moved!.shard, moved!.number]).not.toEqual([shard, number]);
    expect(await triggers.count(moved!.shard)).toEqual({ members: 0, finished: 0 });
    expect((await run.seen()).fast.slice(told)).toEqual([]);
  });

  it('two crashes, with more changes each time: the owner still hears that what is in its wheel is over', async () => {
    const run = new ApplierRun();
    await run.open();
    await run.send([change(near, { key: 'b' })]);
    await run.applyAll();
    const crash = () => new Crash(0, 'before', 'commit');
    const later = (ms: number, payload: string) =>
      change(put({ schedule: { kind: 'cron', expression: '0 3 * * *' }, payload }), { key: 'b', atMs: NOON + ms });
    await run.send([later(1, '1')]);
    await expect(run.applyAll(1_000, crash())).rejects.toThrow('crash');
    await run.send([later(2, '2')]);
    await expect(run.applyAll(1_000, crash())).rejects.toThrow('crash');
    await run.send([change({ kind: 'delete' }, { key: 'b', atMs: NOON + 3 }), later(4, '4')]);
    await expect(run.applyAll(1_000, crash())).rejects.toThrow('crash');
    await run.applyAll();
    const { fast } = await run.seen();
    // The first place of the job was near; the second one is far, and nothing of it is in a wheel.
    expect(fast.filter(({ result }) => result === 'deleted')).toMatchObject([{ version: 4, former: { version: 1 } }]);
  });

  it('a job that another applier wrote meanwhile is read and decided again', async () => {
    const run = await opened();
    const { jobs } = run.stores;
    const read = jobs.getMany.bind(jobs);
    let raced = false;
    jobs.getMany = async (keys) => {
      const found = await read(keys);
      if (!raced) {
        raced = true;
        const g = (await jobs.get('team', 'm'))!;
        await jobs.replaceMany([
          { job: { ...g, version: 2, payload: '"raced"' }, expected: { version: 1, offset: g.position.offset } },
        ]);
      }
      return found;
    };
    await run.applyAll();
    expect(await jobs.get('team', 'm')).toMatchObject({
      version: 2,
      payload: '"raced"',
      lastChange: { result: 'fired' },
    });
  });

  it('bytes that are no change stop nothing', async () => {
    const run = await opened();
    const producer = await run.stores.bus.producer();
    const bad = [
      '',
      '{',
      '{"v":1}',
      '{"v":2}',
      'null',
      '{"v":1,"id":"x","cluster":"team","key":"z","atMs":1,"action":{"kind":"sing"}}',
    ];
    const messages = bad.map((text) => ({ partition: 0, key: 'z', value: Buffer.from(text) }));
    await producer.send([
      { topic: 'carillon.changes', messages: [...messages, { partition: 0, key: 'z', value: null }] },
    ]);
    await run.send([change(near, { key: 'z' })]);
    await run.applyAll();
    expect(await run.stores.jobs.get('team', 'z')).toMatchObject({ state: 'enabled' });
  });
});

describe('records that grow', () => {
  it('a calendar that has become too large for its jobs stops them, visibly, and not the partition', async () => {
    const run = new ApplierRun();
    await run.open();
    const dates = (size: number) =>
      Array.from({ length: size }, (_, i) => new Date(NOON + i * 86_400_000).toISOString().slice(0, 10));
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    const store = async (version: number, size: number) => {
      const ranges = dates(size).map((date) => ({ from: date, to: date }));
      for (const name of names)
        await run.stores.catalog.putCalendar({ name, version, definition: { weekdays: ['sun'], ranges } });
    };
    await store(1, 1);
    const heavy = put({ bounds: { calendars: names }, payload: JSON.stringify('x'.repeat(100_000)) });
    await run.send([change(heavy, { key: 'heavy' }), change(near, { key: 'light' })]);
    await run.applyAll();
    await store(2, 1_000);
    await run.send([
      change({ kind: 'recompute', reason: 'calendar' }, { key: 'heavy' }),
      change(far, { key: 'light' }),
    ]);
    await run.applyAll();
    expect(await run.stores.jobs.get('team', 'heavy')).toMatchObject({
      state: 'error',
      stateReason: expect.stringContaining('calendars'),
    });
    expect(await run.stores.jobs.get('team', 'light')).toMatchObject({ version: 2, state: 'enabled' });
    const { fast } = await run.seen();
    for (const message of fast) expect(JSON.stringify(message).length).toBeLessThan(1_000_000);
  });
});
