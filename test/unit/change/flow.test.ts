import { describe, expect, it } from 'vitest';
import { manualClock } from '../../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../../src/adapters/memory/stores.ts';
import { carillonError } from '../../../src/core/errors.ts';
import { type Answer, type Change, encodeMessage } from '../../../src/core/messages.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import { Applier } from '../../../src/engine/apply.ts';
import { Flow } from '../../../src/engine/change/flow.ts';
import type { BusLane, BusRecord, GroupPartition } from '../../../src/ports/bus.ts';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import { HORIZON, readAll } from './applier-run.ts';
import { change, NOON, put } from './samples.ts';

const HERE = 'this-process';
const far = put({ schedule: { kind: 'cron', expression: '0 3 * * *' } });
/** Due before H: its owner is told. */
const near = put({ schedule: { kind: 'once', atMs: HORIZON - 1_000 } });

/** One changes partition whose commits are noted and may be stopped or refused. */
async function opened() {
  const clock = manualClock(NOON);
  const stores = memoryStores(clock);
  const { bus, catalog, shards, triggers, jobs } = stores;
  await bus.ensureTopics([
    { name: TOPICS.changes, partitions: 1 },
    { name: TOPICS.answers, partitions: 1 },
    { name: TOPICS.fast, partitions: 2 },
  ]);
  const cluster = { name: 'team', topic: 't', partitions: 1, envelope: 'compact', createdMs: NOON } as const;
  await catalog.createCluster({ ...cluster, delivery: 'at-least-once' });
  const shard = { delivery: 'at-least-once', state: 'open', jobs: 0, triggersPerSecond: 0, saturated: false } as const;
  await shards.create([{ ...shard, id: 0, slot: 0, nextNumber: 1 }]);
  await triggers.reset(0, 1, 1);
  await triggers.scan(0, { epoch: 1, expectedHorizonMs: 0, fromMs: 0, horizonMs: HORIZON, build: 1 });

  const commits: { next: number; messages: number }[] = [];
  const answers: Answer[] = [];
  const applier = new Applier({
    ...stores,
    clock,
    telemetry: silentTelemetry,
    slotsPerSet: 1,
    answersPartitions: 1,
    answersHere: { replyTo: HERE, answered: (answer) => answers.push(answer) },
  });
  const control = { refuse: [] as Error[], gate: Promise.resolve() };
  let opens = 0;
  const open = async (): Promise<void> => {
    opens += 1;
    const lane = await bus.lane('applier');
    const noted: BusLane = {
      id: lane.id,
      close: () => lane.close(),
      async commit(messages, offsets) {
        await control.gate;
        const refusal = control.refuse.shift();
        if (refusal !== undefined) throw refusal;
        await lane.commit(messages, offsets);
        commits.push({
          next: offsets![0]!.next,
          messages: messages.reduce((sum, one) => sum + one.messages.length, 0),
        });
      },
    };
    applier.open(0, noted);
  };
  const stop = new AbortController();
  const holder = { generation: 1, member: 'm' };
  const partition: GroupPartition = { topic: TOPICS.changes, partition: 0, next: 0, signal: stop.signal, holder };
  const flow = new Flow({ applier, open, clock, telemetry: silentTelemetry }, partition);
  let offset = 0;
  const give = (...changes: Change[]): Promise<void> => {
    const records = changes.map((one): BusRecord => {
      const value = encodeMessage(one);
      return { partition: 0, offset: offset++, key: one.key, value, headers: {}, timestampMs: NOON };
    });
    return flow.give(records);
  };
  const fast = async () => (await readAll(bus, TOPICS.fast, 0)).length;
  /** Time goes on until something ends. */
  const until = async (work: Promise<void>): Promise<void> => {
    let over = false;
    const end = work.finally(() => {
      over = true;
    });
    while (!over) {
      await clock.advance(100);
      await new Promise((turn) => setImmediate(turn));
    }
    await end;
  };
  return { until, clock, jobs, flow, give, commits, answers, control, fast, stop, opens: () => opens };
}

const asked = (key: string) => ({ key, replyTo: HERE, wantsJob: true }) as const;

describe('the batches of a changes partition', () => {
  it('are stored while those before wait, and committed together a little later', async () => {
    const { clock, give, commits, jobs } = await opened();
    await give(change(far, { key: 'a' }));
    await give(change(far, { key: 'b' }));
    expect(await jobs.get('team', 'b')).toMatchObject({ version: 1 });
    expect(commits).toEqual([]);
    await clock.advance(200);
    expect(commits).toEqual([{ next: 2, messages: 0 }]);
  });

  it('are committed at once where an owner has to be told', async () => {
    const { give, commits, flow } = await opened();
    await give(change(far, { key: 'a' }));
    await give(change(near, { key: 'b' }));
    await flow.close();
    expect(commits).toEqual([{ next: 2, messages: 1 }]);
  });

  it('wait for the commit of those that have a job of theirs', async () => {
    const { give, commits, jobs } = await opened();
    await give(change(far, { key: 'a' }), change(far, { key: 'b' }));
    await give(change({ kind: 'pause' }, { key: 'a' }));
    expect(commits).toEqual([{ next: 2, messages: 0 }]);
    expect(await jobs.get('team', 'a')).toMatchObject({ version: 2, state: 'paused' });
  });

  it('are committed when the partition is let go', async () => {
    const { give, flow, commits, stop } = await opened();
    await give(change(far, { key: 'a' }));
    stop.abort();
    await flow.close();
    expect(commits).toEqual([{ next: 1, messages: 0 }]);
    await expect(give(change(far, { key: 'b' }))).rejects.toMatchObject({ code: 'unavailable' });
  });

  it.each([
    ['is refused', () => carillonError('unavailable', 'not now'), 1],
    ['is fenced', () => carillonError('lane-fenced', 'taken'), 3],
  ])('come again as one where a commit %s, and nothing is passed over or told twice', async (_, refusal, opens) => {
    const t = await opened();
    const { promise, resolve } = Promise.withResolvers<void>();
    t.control.gate = promise;
    t.control.refuse = [refusal(), refusal()];
    await t.give(change(near, { key: 'a' }));
    await t.give(change(far, { key: 'b' }));
    resolve();
    await t.until(t.give(change(near, { key: 'c' })));
    await t.until(t.flow.close());
    const offsets = t.commits.map(({ next }) => next);
    expect(offsets).toEqual(offsets.toSorted((x, y) => x - y));
    expect(offsets.at(-1)).toBe(3);
    expect(await t.fast()).toBe(2);
    expect(t.opens()).toBe(opens);
    for (const key of ['a', 'b', 'c']) expect(await t.jobs.get('team', key)).toMatchObject({ version: 1 });
  });
});

describe('an answer to somebody in the process of the applier', () => {
  it('comes when a new version is stored that no owner has to hear of', async () => {
    const { give, answers, commits } = await opened();
    await give(change(far, asked('a')));
    expect(answers).toMatchObject([
      { ownerFollows: false, outcome: { result: 'created' }, job: { key: 'a', version: 1 } },
    ]);
    expect(commits).toEqual([]);
  });

  it('comes with the commit where an owner has to hear of it, or nothing was written', async () => {
    const { give, flow, answers, control } = await opened();
    await give(change(far, { key: 'old' }));
    await flow.close();
    const { promise, resolve } = Promise.withResolvers<void>();
    control.gate = promise;
    await give(change(near, asked('a')), change(far, asked('old')), change({ kind: 'pause' }, asked('missing')));
    expect(answers).toEqual([]);
    resolve();
    await flow.close();
    const outcomes = answers.map(({ ownerFollows, outcome }) => [
      ownerFollows,
      outcome.ok ? outcome.result : outcome.code,
    ]);
    expect(outcomes).toEqual([
      [true, 'created'],
      [false, 'unchanged'],
      [false, 'job-not-found'],
    ]);
  });
});
