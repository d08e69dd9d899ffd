import { describe, expect, it } from 'vitest';
import { changeOfLine, hasLines, readLines } from '../../../src/core/lines.ts';
import type { Change } from '../../../src/core/messages.ts';
import { decodeMessage } from '../../../src/core/messages.ts';
import { TOPICS } from '../../../src/core/topics.ts';
import { newOperation } from '../../../src/management/bulk/upload.ts';
import { ApplierRun, Crash, readAll } from './applier-run.ts';
import { change, NOON, put } from './samples.ts';

/** Definitions of every form that a line may say, the first forty times of most of them. */
const FORMS: object[] = [
  { schedule: { kind: 'cron', expression: '0 3 * * *', zone: 'Europe/Berlin' }, payload: { n: 1, text: 'ä📦\u0000' } },
  { schedule: { kind: 'cron', expression: 'H H * * *' } },
  { schedule: { kind: 'rate', everyMs: 5_000 }, payload: 'near' },
  { schedule: { kind: 'rate', everyMs: 7_200_000, anchor: '2020-01-01T00:00:00Z' }, state: 'paused' },
  { schedule: { kind: 'rate', everyMs: 7_200_000 }, start: '2030-01-01T00:00:00Z', spreadMs: 1_000, state: 'enabled' },
  { schedule: { kind: 'once', at: '2031-01-01T00:00:00Z' }, labels: { __proto__: 'p', 'a.b': 'c' } },
  { schedule: { kind: 'delay', delayMs: 60_000 }, description: 'for people', contentType: 'text/plain' },
  { schedule: { kind: 'rate', everyMs: 60_000 }, maxCount: 3 },
  { schedule: { kind: 'cron', expression: '61 * * * *' } },
  { schedule: { kind: 'rate', everyMs: 60_000 }, misfire: { mode: 'all', maxNumber: 5 }, payload: 'x'.repeat(100_000) },
];

const lineOf = (n: number, key = `job "${n}" ß`): string => JSON.stringify({ key, ...FORMS[n % FORMS.length] });
const ONCE = Array.from({ length: 120 }, (_, n) => lineOf(n));
const LINES = [...ONCE];
// Repeats of a key, near and far from the first, equal and different.
LINES.push(lineOf(3), lineOf(4), lineOf(5, 'job "4" ß'), lineOf(6, 'job "5" ß'), lineOf(2), lineOf(2));
const PUT = put({ schedule: { kind: 'rate', everyMs: 3_600_000 } });

async function opened(): Promise<ApplierRun> {
  const run = new ApplierRun();
  await run.open();
  await run.stores.operations.start(newOperation('team', 'bulk', NOON));
  // Some of the jobs are there before.
  const keys = ['job "7" ß', 'job "12" ß', 'another'];
  await run.send(keys.map((key) => change(PUT, { key, id: `before ${key}` })));
  await run.applyAll();
  return run;
}

/** What the lines say, each as a change of its own. */
async function changesIn(run: ApplierRun, from: number): Promise<Change[]> {
  const records = await readAll(run.stores.bus, TOPICS.changes, 0);
  return records.slice(from).flatMap(({ value }) => {
    return hasLines(value!) ? readLines(value!).map(changeOfLine) : [decodeMessage<Change>(value!)!];
  });
}

/** All that others can see but offsets. */
async function seen(run: ApplierRun) {
  const { committed: _, ...rest } = await run.seen('bulk');
  const jobs = rest.jobs.map(({ position: __, ...job }) => job);
  // What a repeat needs tells offsets too.
  return JSON.parse(JSON.stringify({ ...rest, jobs }, (name, value) => (name === 'offset' ? undefined : value)));
}

describe('lines of a bulk in messages of many', () => {
  it('come to the same as each line as a change of its own', async () => {
    const together = await opened();
    const errors = await together.sendLines('bulk', LINES);
    expect(errors.map(({ code }) => code)).toEqual(
      LINES.filter((_, n) => n < 120 && n % 10 === 8).map(() => 'schedule-invalid'),
    );
    const records = await readAll(together.stores.bus, TOPICS.changes, 0);
    expect(records.filter(({ value }) => hasLines(value!)).length).toBeGreaterThan(3);
    await together.applyAll();

    const apart = await opened();
    const changes = await changesIn(together, 3);
    expect(changes).toHaveLength(LINES.length - errors.length);
    expect(changes.map(({ operation }) => operation!.line)).toEqual(
      LINES.map((_, n) => n + 1).filter((line) => !errors.some((error) => error.line === line)),
    );
    await apart.send(changes);
    await apart.applyAll();
    expect(await seen(together)).toEqual(await seen(apart));
    expect((await together.seen('bulk')).counts).toMatchObject({ created: 106, failed: 0 });
  });

  it('sent again, since nobody knew whether they had arrived, are one line each', async () => {
    const run = await opened();
    await run.sendLines('bulk', ONCE);
    await run.applyAll();
    const once = await seen(run);
    await run.sendLines('bulk', ONCE);
    await run.applyAll();
    expect((await seen(run)).jobs).toEqual(once.jobs);
    expect((await seen(run)).counts!.created).toBe(once.counts!.created);
  });

  it.each(['before', 'after'] as const)('a crash %s any call to a store, and the same records again', async (when) => {
    const whole = await opened();
    await whole.sendLines('bulk', LINES);
    const calls = new Crash(-1, when);
    await whole.applyAll(1_000, calls);
    const expected = await whole.seen('bulk');
    expect(calls.calls).toBeGreaterThan(8);
    for (let at = 0; at < calls.calls; at++) {
      const run = await opened();
      await run.sendLines('bulk', LINES);
      await expect(run.applyAll(1_000, new Crash(at, when)), `call ${at}`).rejects.toThrow('crash');
      await run.applyAll(1_000);
      expect(await run.seen('bulk'), `crash ${when} call ${at}`).toEqual(expected);
    }
  });

  it('a cut message is counted and stops nothing', async () => {
    const run = await opened();
    const producer = await run.stores.bus.producer();
    const value = new Uint8Array([1, 5, 0, 1, 2, 3]);
    await producer.send([{ topic: TOPICS.changes, messages: [{ partition: 0, key: 'k', value }] }]);
    await run.sendLines('bulk', LINES.slice(0, 40));
    await run.applyAll();
    expect((await run.seen('bulk')).counts!.created).toBeGreaterThan(30);
  });
});
