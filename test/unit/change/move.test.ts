import { describe, expect, it } from 'vitest';
import type { Job } from '../../../src/core/job.ts';
import { compileSchedule } from '../../../src/core/schedule/schedule.ts';
import { sidesOf } from '../../../src/engine/change/sides.ts';
import { change, decided, NOON, put, step } from './samples.ts';

const CUT = NOON + 120_000;
const begin = (cutMs = CUT, atMs = NOON) => change({ kind: 'move', step: 'begin', cutMs }, { atMs });
const go = (ifVersion: number, atMs = NOON) => change({ kind: 'move', step: 'go' }, { atMs, ifVersion });
const end = (ifVersion: number, atMs = CUT) => change({ kind: 'move', step: 'end' }, { atMs, ifVersion });
const cancel = (ifVersion: number) => change({ kind: 'move', step: 'cancel' }, { ifVersion });

function gone(): Job {
  return decided(change(put()), begin(), go(2)).job!;
}

/** Nominal times of a side from noon on. */
function timesOf({ key, cutMs, schedule, bounds, createdMs }: Job, upToMs: number): number[] {
  const compiled = compileSchedule(schedule, bounds, { key, createdMs });
  const times: number[] = [];
  for (let at = compiled.next(cutMs - compiled.offsetMs); at >= 0 && at <= upToMs; at = compiled.next(at))
    times.push(at);
  return times;
}

describe('the steps of a move', () => {
  it('begin ends a new version at the cut, where it stands', () => {
    const { job } = decided(change(put()), begin());
    expect(job).toMatchObject({ version: 2, shard: 7, number: 1_000, cutMs: NOON, move: { cutMs: CUT } });
    const [side, ...others] = sidesOf(job!);
    expect(others).toEqual([]);
    expect(timesOf(side!, CUT + 60_000).at(-1)).toBe(CUT);
  });

  it('go takes a new place; the two sides share the times of the job', () => {
    const job = gone();
    expect(job).toMatchObject({
      version: 3,
      shard: 7,
      number: 1_002,
      move: { cutMs: CUT, from: { shard: 7, number: 1_000 } },
    });
    const [here, there] = sidesOf(job);
    expect([there!.number, here!.number]).toEqual([1_000, 1_002]);
    const all = Array.from({ length: 36 }, (_, n) => NOON + (n + 1) * 5_000);
    expect([...timesOf(there!, NOON + 180_000), ...timesOf(here!, NOON + 180_000)]).toEqual(all);
  });

  it.each([1, 400, 4_999])('a spread of %i ms belongs to one side as well', (spreadMs) => {
    const { job } = decided(change(put({ bounds: { spreadMs } })), begin(), go(2));
    const [here, there] = sidesOf(job!);
    const times = [...timesOf(there!, CUT + 60_000), ...timesOf(here!, CUT + 60_000)];
    expect(times.map((at, n) => at - (times[n - 1] ?? at - 5_000))).toEqual(times.map(() => 5_000));
  });

  it('end gives the old place up without a new version', () => {
    const { job, outcome } = decided(change(put()), begin(), go(2), end(3));
    expect(outcome).toMatchObject({ ok: true, version: 3 });
    expect(job).toMatchObject({ number: 1_002, cutMs: CUT, state: 'enabled' });
    expect(job!.move).toBeUndefined();
  });

  it('end is refused while the last change is not committed, and at another version', () => {
    const job = gone();
    const code = (n: number) => ({ ok: false, code: ['state-conflict', 'version-mismatch'][n] });
    expect(step(job, end(3), job.position.offset).outcome).toMatchObject(code(0));
    expect(step(job, end(2)).outcome).toMatchObject(code(1));
  });

  it('a change between begin and go takes the move back; go and cancel find nothing then', () => {
    const { job } = decided(change(put()), begin(), change(put({ payload: '2' }), { atMs: NOON + 10 }));
    expect(job).toMatchObject({ version: 3, cutMs: NOON + 10 });
    expect(job!.move).toBeUndefined();
    expect(step(job, go(2)).outcome).toMatchObject({ code: 'version-mismatch' });
    expect(step(job, go(3)).outcome).toMatchObject({ code: 'state-conflict' });
    expect(step(job, cancel(3)).outcome).toMatchObject({ code: 'state-conflict' });
  });

  it('a change after go is written to both sides, and a deletion too', () => {
    const paused = step(gone(), change({ kind: 'pause' }, { atMs: NOON + 10 })).next!;
    expect(sidesOf(paused).map(({ number, state, version }) => [number, state, version])).toEqual([
      [1_002, 'paused', 4],
      [1_000, 'paused', 4],
    ]);
    const deleted = step(gone(), change({ kind: 'delete' })).next!;
    expect(sidesOf(deleted).map(({ number, deleted: d }) => [number, d])).toEqual([
      [1_002, true],
      [1_000, true],
    ]);
  });

  it('a job that does not fire moves at once and keeps why', () => {
    const { job } = decided(change(put()), change({ kind: 'pause' }, { atMs: NOON + 7 }), begin(CUT, NOON + 9));
    expect(job).toMatchObject({ number: 1_002, state: 'paused', cutMs: NOON + 7, version: 3 });
    expect(job!.move).toBeUndefined();
    const failed: Job = { ...job!, state: 'error', stateReason: 'why' };
    expect(step(failed, begin()).next).toMatchObject({ state: 'error', stateReason: 'why' });
  });

  it('a job that runs out before the cut stays, and one that leaves a place cannot begin again', () => {
    const once = decided(change(put({ schedule: { kind: 'once', atMs: NOON + 5_000 } }))).job;
    expect(step(once, begin())).toMatchObject({ outcome: { result: 'unchanged' }, next: null });
    expect(step(gone(), begin()).outcome).toMatchObject({ code: 'state-conflict' });
  });

  it('begin that comes late is refused', () => {
    const { job } = decided(change(put()));
    const late = { ...begin(), atMs: NOON };
    expect(step(job, late, 1_000, undefined, NOON + 60_001).outcome).toMatchObject({ code: 'state-conflict' });
    expect(step(job, late, 1_000, undefined, NOON + 60_000).outcome).toMatchObject({ ok: true });
  });

  it('should nobody go on before the cut, whatever comes next begins there', () => {
    const ranOut: Job = { ...decided(change(put()), begin()).job!, state: 'finished' };
    const atMs = CUT + 60_000;
    for (const one of [begin(atMs + 120_000, atMs), { ...cancel(2), atMs }]) {
      expect(step(ranOut, one).next).toMatchObject({ state: 'enabled', cutMs: CUT });
    }
    expect(step({ ...ranOut, state: 'enabled' }, change({ kind: 'pause' }, { atMs })).next).toMatchObject({
      cutMs: CUT,
    });
  });

  it('a job whose last time lay on the side that it left is finished at the end', () => {
    const schedule = { kind: 'once', atMs: CUT - 5 } as const;
    const { next } = step(gone(), change(put({ schedule })));
    const ended = step({ ...next!, position: { partition: 0, offset: 5 } }, end(4));
    expect(ended.next).toMatchObject({ state: 'finished' });
  });
});
