import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AddResult, MemberScore, TriggerChange, TriggerStore } from '../../src/ports/trigger-store.ts';
import { begun, type OpenedTriggers } from './trigger-store.contract.ts';

/** One step; times and versions are few and small so that equal ones and crossings of H are frequent. */
type Step =
  | { kind: 'add'; changes: { number: number; version: number; score: number | null; deleted: boolean }[] }
  | { kind: 'claim'; epoch: number }
  | { kind: 'scan'; epoch: number; off: number; full: boolean; by: number }
  | { kind: 'writeBack'; epoch: number; scores: MemberScore[] }
  | { kind: 'removeFinished'; members: { number: number; version: number }[] }
  | { kind: 'restore'; epoch: number; jobs: { number: number; version: number; score: number | null }[] }
  | { kind: 'reset'; epoch: number; ends: boolean }
  | { kind: 'drop' };

const number = fc.integer({ min: 0, max: 5 });
const version = fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 65_536, max: 65_539 }));
const epoch = fc.integer({ min: 0, max: 3 });
const time = fc.integer({ min: 1, max: 60 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      changes: fc.array(fc.record({ number, version, score: fc.option(time, { freq: 4 }), deleted: fc.boolean() }), {
        maxLength: 4,
      }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('claim' as const), epoch }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('scan' as const),
      epoch,
      off: fc.constantFrom(0, 0, 0, 1),
      full: fc.boolean(),
      by: fc.integer({ min: 0, max: 15 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('writeBack' as const),
      epoch,
      scores: fc.array(fc.record({ number, version, score: fc.oneof(time, fc.constant(0)) }), { maxLength: 4 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('removeFinished' as const),
      members: fc.array(fc.record({ number, version }), { maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('restore' as const),
      epoch,
      jobs: fc.array(fc.record({ number, version, score: fc.option(time, { freq: 4 }) }), {
        minLength: 1,
        maxLength: 4,
      }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset' as const), epoch, ends: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('drop' as const) }) },
);

interface ModelJob {
  version: number;
  score: number | null;
  record: string | null;
  answer: boolean;
}

/** The port's prose, said as plainly as it can be. It shares no code with any adapter. */
class Model {
  jobs = new Map<number, ModelJob>();
  horizon = 0;
  epoch = 0;
  build = 0;
  whole = false;

  add(one: TriggerChange & { text: string | null }): AddResult {
    const stored = this.jobs.get(one.number);
    if (stored !== undefined && stored.version > one.version) return { outcome: 'older', reachesOwner: false };
    if (stored?.version === one.version) return { outcome: 'same', reachesOwner: stored.answer };
    const touched = [one.score, stored?.score ?? null].filter((score) => score !== null);
    const answer = touched.some((score) => score <= this.horizon) || !this.whole;
    this.jobs.set(one.number, { version: one.version, score: one.score, record: one.text, answer });
    return { outcome: 'applied', reachesOwner: answer };
  }

  restore(one: TriggerChange & { text: string | null }): AddResult {
    const stored = this.jobs.get(one.number);
    if (stored?.version === one.version) {
      if ((stored.score === null) === (one.score === null)) return { outcome: 'same', reachesOwner: stored.answer };
      const answer = !this.whole || (one.score ?? stored.score)! <= this.horizon;
      this.jobs.set(one.number, { version: one.version, score: one.score, record: one.text, answer: true });
      return { outcome: 'applied', reachesOwner: answer };
    }
    const result = this.add(one);
    if (result.outcome === 'applied') this.jobs.get(one.number)!.answer = true;
    return result;
  }

  clear(): void {
    this.jobs.clear();
    this.horizon = 0;
    this.epoch = 0;
    this.build = 0;
    this.whole = false;
  }

  members(): [number, ModelJob & { score: number }][] {
    return [...this.jobs].filter((entry): entry is [number, ModelJob & { score: number }] => entry[1].score !== null);
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

async function runAdd(store: TriggerStore, shard: number, model: Model, step: Step & { kind: 'add' }): Promise<void> {
  const changes = step.changes.map((one) => {
    const text = one.deleted ? null : `${one.number}@${one.version}`;
    const score = one.deleted ? null : one.score;
    const record = text === null ? null : encoder.encode(text);
    return { number: one.number, version: one.version, score, record, text };
  });
  const expected = changes.map((one) => model.add(one));
  const given = changes.map(({ text: _text, ...one }) => one);
  expect(await store.add(shard, given)).toEqual(expected);
}

async function runScan(store: TriggerStore, shard: number, model: Model, step: Step & { kind: 'scan' }): Promise<void> {
  const epoch = Math.min(step.epoch, model.epoch);
  const expectedHorizonMs = model.horizon + step.off;
  const horizonMs = expectedHorizonMs + step.by;
  const fromMs = step.full ? 0 : expectedHorizonMs;
  const result = await store.scan(shard, { epoch, expectedHorizonMs, fromMs, horizonMs });
  if (epoch < model.epoch) {
    expect(result).toEqual({ status: 'stale', epoch: model.epoch });
    return;
  }
  if (!model.whole) {
    expect(result).toEqual({ status: 'not-whole' });
    return;
  }
  if (step.off > 0) {
    expect(result).toEqual({ status: 'horizon-moved', horizonMs: model.horizon });
    return;
  }
  model.horizon = horizonMs;
  if (result.status !== 'ok') throw new Error(`expected members, got ${JSON.stringify(result)}`);
  const line = (score: number, n: number, v: number, record: string | null): string => `${score} ${n} ${v} ${record}`;
  const scores = result.due.map((one) => one.score);
  expect(scores).toEqual([...scores].sort((a, b) => a - b));
  expect(result.due.map((d) => line(d.score, d.number, d.memberVersion, decoder.decode(d.record))).sort()).toEqual(
    model
      .members()
      .filter(([, job]) => job.score > fromMs && job.score <= horizonMs)
      .map(([n, job]) => line(job.score, n, job.version & 0xffff, job.record))
      .sort(),
  );
}

async function runWriteBack(
  store: TriggerStore,
  shard: number,
  model: Model,
  step: Step & { kind: 'writeBack' },
): Promise<void> {
  const epoch = Math.min(step.epoch, model.epoch);
  const result = await store.writeBack(shard, epoch, step.scores);
  if (epoch < model.epoch) {
    expect(result).toEqual({ status: 'stale', epoch: model.epoch });
    return;
  }
  const within: number[] = [];
  const missing: number[] = [];
  for (const [i, one] of step.scores.entries()) {
    const job = model.jobs.get(one.number);
    if (job === undefined || job.score === null || job.version !== one.version) {
      missing.push(i);
      continue;
    }
    job.score = one.score;
    if (one.score !== 0 && one.score <= model.horizon) within.push(i);
  }
  expect(result).toEqual({ status: 'ok', within, missing });
}

async function runRestore(
  store: TriggerStore,
  shard: number,
  model: Model,
  step: Step & { kind: 'restore' },
): Promise<void> {
  const epoch = Math.min(step.epoch, model.epoch);
  const jobs = step.jobs.map((one) => {
    const text = `${one.number}@${one.version} restored`;
    return { ...one, record: encoder.encode(text), text };
  });
  const differ = await store.compare(
    shard,
    jobs.map(({ number: n, version: v, score }) => ({ number: n, version: v, member: score !== null })),
  );
  expect(differ).toEqual(
    [...jobs.keys()].filter((i) => {
      const { number: n, version: v, score } = jobs[i]!;
      const stored = model.jobs.get(n);
      if (stored === undefined) return true;
      return stored.version < v || (stored.version === v && (stored.score === null) !== (score === null));
    }),
  );
  const result = await store.restore(
    shard,
    epoch,
    jobs.map(({ text: _text, ...one }) => one),
  );
  if (epoch < model.epoch) expect(result).toEqual({ status: 'stale', epoch: model.epoch });
  else expect(result).toEqual(jobs.map((one) => model.restore(one)));
}

async function runReset(store: TriggerStore, shard: number, model: Model, step: Step & { kind: 'reset' }) {
  const result = await store.reset(shard, step.epoch, model.build + 1);
  if (step.epoch < model.epoch) {
    expect(result).toEqual({ status: 'stale', epoch: model.epoch });
    return;
  }
  const build = model.build + 1;
  model.clear();
  model.epoch = step.epoch;
  model.build = build;
  if (!step.ends) return;
  const request = { epoch: step.epoch, expectedHorizonMs: 0, fromMs: 0, horizonMs: 0 };
  expect(await store.scan(shard, { ...request, build: build + 1 })).toEqual({ status: 'not-whole' });
  expect(await store.scan(shard, { ...request, build })).toEqual({ status: 'ok', due: [] });
  model.whole = true;
}

async function run(store: TriggerStore, shard: number, model: Model, step: Step): Promise<void> {
  if (step.kind === 'add') return runAdd(store, shard, model, step);
  if (step.kind === 'scan') return runScan(store, shard, model, step);
  if (step.kind === 'restore') return runRestore(store, shard, model, step);
  if (step.kind === 'reset') return runReset(store, shard, model, step);
  if (step.kind === 'writeBack') return runWriteBack(store, shard, model, step);
  if (step.kind === 'claim') {
    const result = await store.claim(shard, step.epoch);
    if (step.epoch < model.epoch) {
      expect(result).toEqual({ status: 'stale', epoch: model.epoch });
    } else {
      const { horizon: horizonMs, epoch: formerEpoch, whole } = model;
      model.epoch = step.epoch;
      expect(result).toMatchObject({ status: 'ok', horizonMs, formerEpoch, whole });
    }
  } else if (step.kind === 'removeFinished') {
    await store.removeFinished(shard, step.members);
    for (const one of step.members) {
      const job = model.jobs.get(one.number);
      if (job?.version === one.version && job.score !== null) model.jobs.delete(one.number);
    }
  } else {
    await store.drop(shard);
    model.clear();
  }
}

export function triggerSequences(opened: OpenedTriggers): void {
  test('any sequence of calls gives what the naive model gives', async () => {
    const { store } = opened();
    let shard = 1_000;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
        shard += 1;
        const model = new Model();
        await begun(store, shard, 0);
        model.whole = true;
        for (const one of steps) await run(store, shard, model, one);
        const members = model.members();
        const finished = members.filter(([, job]) => job.score === 0);
        expect(await store.count(shard)).toEqual({ members: members.length, finished: finished.length });
        const named = await store.finished(shard, 100);
        expect(named.map((one) => `${one.number}@${one.version}`).sort()).toEqual(
          finished.map(([n, job]) => `${n}@${job.version}`).sort(),
        );
        await store.drop(shard);
      }),
      { numRuns: 150 },
    );
  });
}
