import { describe, expect, it } from 'vitest';
import type { Job } from '../../../src/core/job.ts';
import { Calendars } from '../../../src/engine/change/calendars.ts';
import { decide } from '../../../src/engine/change/decide.ts';
import { nextEffective } from '../../../src/engine/change/timing.ts';
import { change, decided, definition, NOON, put, step } from './samples.ts';

const none = new Calendars();
const nextAfter = (job: Job, afterMs: number): number | null => nextEffective(job, afterMs, none);
const at = (ms: number) => ({ atMs: NOON + ms });

describe('put', () => {
  it('makes a job with version 1 that fires first one period after the change', () => {
    const { outcome, job } = decided(change(put()));
    expect(outcome).toEqual({ ok: true, result: 'created', version: 1, state: 'enabled' });
    expect(job).toMatchObject({ cutMs: NOON, createdMs: NOON, shard: 7, number: 1_000 });
    expect(nextAfter(job!, job!.cutMs)).toBe(NOON + 5_000);
  });

  it('O-DL-04: saved again unchanged, at any time, it moves no grid and no version', () => {
    const first = decided(change(put())).job!;
    for (const ms of [1, 2_499, 5_000, 7_777, 86_400_123]) {
      const { outcome, next } = step(first, change(put(), at(ms)));
      expect(outcome).toEqual({ ok: true, result: 'unchanged', version: 1, state: 'enabled' });
      expect(next).toBeNull();
    }
  });

  it('O-DL-04: what does not move times keeps the grid and raises the version by one', () => {
    const { job } = decided(change(put()), change(put({ payload: '2' }), at(7_777)));
    expect(job).toMatchObject({ version: 2, cutMs: NOON + 7_777, payload: '2' });
    expect(nextAfter(job!, job!.cutMs)).toBe(NOON + 10_000);
  });

  it('O-DL-06: a shorter schedule is in force from the change on, not from the old next fire', () => {
    const daily = put({ schedule: { kind: 'cron', expression: '0 3 * * *' } });
    const minutely = put({ schedule: { kind: 'cron', expression: '* * * * *' } });
    const { job } = decided(change(daily), change(minutely, at(10_000)));
    expect(nextAfter(job!, job!.cutMs)).toBe(NOON + 60_000);
  });

  it('O-DL-06: intervals changed a hundred times keep one grid whose spacing is that of the last one', () => {
    const periods = [8_000, 4_000, 9_000, 2_000, 3_000];
    const changes = Array.from({ length: 100 }, (_, i) =>
      change(put({ schedule: { kind: 'rate', everyMs: periods[i % 5]! } }), at(i * 1_000)),
    );
    const { job } = decided(...changes);
    expect(job!.version).toBe(100);
    const first = nextAfter(job!, job!.cutMs)!;
    expect(first).toBeGreaterThan(NOON + 99_000);
    expect(nextAfter(job!, first)! - first).toBe(3_000);
  });

  it('a maximum count is counted once: saved again it keeps its end, with another schedule it counts anew', () => {
    const counted = put({ bounds: { maxCount: 3 } });
    const { job } = decided(change(counted));
    expect(job!.bounds).toEqual({ endMs: NOON + 15_000 });
    expect(step(job, change(counted, at(7_000))).outcome).toMatchObject({ result: 'unchanged' });
    const faster = put({ schedule: { kind: 'rate', everyMs: 1_000 }, bounds: { maxCount: 3 } });
    const later = step(job, change(faster, at(7_500))).next!;
    expect(later.bounds).toEqual({ endMs: NOON + 10_000 });
    expect(step(later, change(faster, at(9_000))).outcome).toMatchObject({ result: 'unchanged' });
  });

  it('O-CR-14: a schedule without any occurrence is refused with its field, and nothing is stored', () => {
    for (const expression of ['0 0 30 2 *', '5 1 31 4 *', '0 0 0 1 1 ? 1999']) {
      const { outcome, next } = decided(change(put({ schedule: { kind: 'cron', expression } })));
      expect(outcome).toMatchObject({ ok: false, field: 'schedule.expression' });
      expect(next).toBeNull();
    }
  });

  it('an update that is refused leaves the job as it was', () => {
    const { job } = decided(change(put()));
    const { outcome, next } = step(job, change(put({ schedule: { kind: 'once', atMs: NOON - 1 } }), at(1_000)));
    expect(outcome).toMatchObject({ ok: false, code: 'schedule-impossible', field: 'schedule.atMs' });
    expect(next).toBeNull();
  });

  it('a definition that cannot be compiled is an error of this change alone', () => {
    for (const schedule of [
      null,
      5,
      {},
      { kind: 'cron' },
      { kind: 'rate', everyMs: 'x' },
      { kind: 'cron', expression: {} },
    ]) {
      const { outcome } = decided(change(put({ schedule: schedule as never })));
      expect(outcome).toMatchObject({ ok: false });
    }
  });

  it('only if absent: equal is unchanged, other is job-exists', () => {
    const { job } = decided(change(put()));
    const create = { onlyIf: 'absent' } as const;
    expect(step(job, change(put({}, create))).outcome).toMatchObject({ ok: true, result: 'unchanged' });
    expect(step(job, change(put({ payload: '2' }, create))).outcome).toMatchObject({ ok: false, code: 'job-exists' });
    expect(decided(change(put({}, { onlyIf: 'present' }))).outcome).toMatchObject({ ok: false, code: 'job-not-found' });
  });

  it('a version that does not match changes nothing', () => {
    const { job } = decided(change(put()));
    const wrong = step(job, change({ kind: 'pause' }, { ifVersion: 2 }));
    expect(wrong).toMatchObject({ outcome: { ok: false, code: 'version-mismatch' }, next: null });
    expect(step(job, change({ kind: 'pause' }, { ifVersion: 1 })).outcome).toMatchObject({ ok: true, version: 2 });
    expect(step(null, change(put(), { ifVersion: 1 })).outcome).toMatchObject({ code: 'version-mismatch' });
  });

  it('without a place for a new job it is capacity-exhausted', () => {
    const position = { partition: 0, offset: 1 };
    const context = { position, calendars: none, takePlace: () => null, uncommittedFrom: 1, nowMs: NOON };
    expect(decide(null, change(put()), context)).toMatchObject({ outcome: { code: 'capacity-exhausted' }, next: null });
  });

  it('a new change never has a cut before that of an older one, whatever the clock says', () => {
    const { job } = decided(change(put()), change(put({ payload: '2' }), at(-60_000)));
    expect(job!.cutMs).toBe(NOON);
  });
});

describe('delete', () => {
  it('O-DL-05: a job made again is another one: new place, after the end of the deleted one', () => {
    const { job, outcome } = decided(change(put()), change({ kind: 'delete' }, at(7_000)), change(put(), at(6_990)));
    expect(outcome).toMatchObject({ result: 'created', version: 1 });
    expect(job).toMatchObject({ number: 1_002, cutMs: NOON + 7_000 });
    expect(job!.deleted).toBeUndefined();
    expect(nextAfter(job!, job!.cutMs)).toBe(NOON + 12_000);
  });

  it('leaves a tombstone; the second one finds no job', () => {
    const { job } = decided(change(put()), change({ kind: 'delete' }, at(1)));
    expect(job).toMatchObject({ deleted: true, version: 2 });
    expect(step(job, change({ kind: 'delete' })).outcome).toMatchObject({ code: 'job-not-found' });
    expect(step(job, change({ kind: 'pause' })).outcome).toMatchObject({ code: 'job-not-found' });
  });
});

describe('pause and resume', () => {
  it('what passed in the pause belongs to the resumed version', () => {
    const { job } = decided(
      change(put()),
      change({ kind: 'pause' }, at(12_000)),
      change({ kind: 'resume' }, at(60_000)),
    );
    expect(job).toMatchObject({ state: 'enabled', version: 3, cutMs: NOON + 12_000 });
    expect(nextAfter(job!, job!.cutMs)).toBe(NOON + 15_000);
  });

  it('a change of other fields in the pause keeps its beginning, a change of the schedule does not', () => {
    const paused = decided(change(put()), change({ kind: 'pause' }, at(12_000))).job!;
    const described = step(paused, change(put({ description: 'x' }), at(30_000))).next!;
    expect(described).toMatchObject({ state: 'paused', cutMs: NOON + 12_000, version: 3 });
    const moved = step(paused, change(put({ schedule: { kind: 'rate', everyMs: 1_000 } }), at(30_000))).next!;
    expect(moved).toMatchObject({ state: 'paused', cutMs: NOON + 30_000 });
  });

  it('a put that says nothing of the state keeps a pause; one that says enabled ends it', () => {
    const paused = decided(change(put()), change({ kind: 'pause' }, at(1))).job!;
    expect(step(paused, change(put(), at(2))).outcome).toMatchObject({ result: 'unchanged', state: 'paused' });
    expect(step(paused, change(put({}, { paused: false }), at(2))).outcome).toMatchObject({ state: 'enabled' });
  });

  it('a job whose last occurrence passed in the pause is finished when none is left to go by the policy', () => {
    const once = put({ schedule: { kind: 'once', atMs: NOON + 1_000 } });
    const late = decided(change(once), change({ kind: 'pause' }, at(500)), change({ kind: 'resume' }, at(9_000))).job!;
    expect(late.state).toBe('enabled');
    const fired = decided(change(once), change({ kind: 'pause' }, at(1_000)), change({ kind: 'resume' }, at(9_000)))
      .job!;
    expect(fired.state).toBe('finished');
  });

  it('both are unchanged where nothing is to do, and refused where they make no sense', () => {
    const { job } = decided(change(put()));
    expect(step(job, change({ kind: 'resume' })).outcome).toMatchObject({ result: 'unchanged' });
    const finished = { ...job!, state: 'finished' as const };
    expect(step(finished, change({ kind: 'resume' })).outcome).toMatchObject({ code: 'state-conflict' });
    expect(step(finished, change({ kind: 'pause' })).outcome).toMatchObject({ code: 'state-conflict' });
  });
});

describe('terminate, finish, fire', () => {
  it('a terminated job is kept and takes nothing but its deletion', () => {
    const { job } = decided(change(put()), change({ kind: 'terminate' }, at(1)));
    expect(job).toMatchObject({ state: 'terminated', version: 2 });
    for (const action of [
      put({ payload: '2' }),
      { kind: 'resume' },
      { kind: 'pause' },
      { kind: 'fire', requestKey: 'x' },
    ] as const) {
      expect(step(job, change(action)).outcome).toMatchObject({ code: 'state-conflict' });
    }
    expect(step(job, change({ kind: 'terminate' })).outcome).toMatchObject({ result: 'unchanged' });
    expect(step(job, change({ kind: 'delete' })).outcome).toMatchObject({ result: 'deleted' });
  });

  it('a finished job: the same again is unchanged, a schedule with occurrences enables it', () => {
    const once = put({ schedule: { kind: 'once', atMs: NOON + 1_000 } });
    const finished = { ...decided(change(once)).job!, state: 'finished' as const };
    expect(step(finished, change(once, at(5_000))).outcome).toMatchObject({ result: 'unchanged', state: 'finished' });
    const again = put({ schedule: { kind: 'once', atMs: NOON + 9_000 } });
    expect(step(finished, change(again, at(5_000))).next).toMatchObject({ state: 'enabled', version: 2 });
    expect(
      step(
        finished,
        change(put({ ...definition(), schedule: { kind: 'once', atMs: NOON + 1_000 }, description: 'x' }), at(5_000)),
      ).next,
    ).toMatchObject({ state: 'finished' });
  });

  it('a run by hand raises no version, and the same request makes no second one, also after other changes', () => {
    const fire = change({ kind: 'fire', requestKey: 'k' }, at(1));
    const fired = decided(change(put()), fire).job!;
    expect(fired).toMatchObject({ version: 1, fired: [{ id: fire.id, atMs: NOON + 1 }] });
    const paused = step(fired, change({ kind: 'pause' }, at(2))).next!;
    expect(step(paused, { ...fire, atMs: NOON + 3 })).toMatchObject({
      outcome: { result: 'fired' },
      next: null,
      repeated: true,
    });
    expect(step(paused, change({ kind: 'fire', requestKey: 'l' })).outcome).toMatchObject({ result: 'fired' });
  });

  it('a request that comes twice is answered the same and changes nothing', () => {
    const pause = change({ kind: 'pause' }, at(5));
    const { job } = decided(change(put()), pause);
    expect(step(job, pause)).toMatchObject({
      outcome: { ok: true, result: 'updated', version: 2 },
      next: null,
      repeated: true,
    });
  });
});

describe('patch', () => {
  const patch = (fields: object) => change({ kind: 'patch', fields }, at(7_777));

  it('merges members of the same kind of schedule and keeps the rest', () => {
    const zoned = put({
      schedule: { kind: 'cron', expression: '0 9 * * *', zone: 'Europe/Paris' },
      labels: { a: '1', b: '2' },
    });
    const { job } = decided(
      change(zoned),
      patch({ schedule: { expression: '0 10 * * *' }, labels: { a: null, c: '3' } }),
    );
    expect(job).toMatchObject({
      schedule: { kind: 'cron', expression: '0 10 * * *', zone: 'Europe/Paris' },
      labels: { b: '2', c: '3' },
    });
    expect(job!.labels).not.toHaveProperty('a');
  });

  it('replaces the schedule whole when its kind is another', () => {
    const { job } = decided(
      change(put({ schedule: { kind: 'cron', expression: '* * * * *', zone: 'Asia/Tokyo' } })),
      patch({ schedule: { kind: 'rate', everyMs: 60_000 } }),
    );
    expect(job!.schedule).toEqual({ kind: 'rate', everyMs: 60_000, anchorMs: NOON + 7_777 + 60_000 });
  });

  it('refuses a member of another kind, naming it', () => {
    expect(decided(change(put()), patch({ schedule: { expression: '* * * * *' } })).outcome).toMatchObject({
      ok: false,
      field: 'schedule.expression',
    });
  });

  it('takes fields away with null; a maximum count goes with its end', () => {
    const { job } = decided(
      change(put({ bounds: { maxCount: 3 }, description: 'x' })),
      patch({ bounds: { maxCount: null }, description: null, misfire: { maxNumber: 2 } }),
    );
    expect(job!.bounds).toEqual({});
    expect(job).not.toHaveProperty('counted');
    expect(job).not.toHaveProperty('description');
    expect(job!.misfire).toEqual({ mode: 'once', maxNumber: 2 });
  });

  it('an empty one changes nothing', () => {
    expect(decided(change(put()), patch({})).outcome).toMatchObject({ result: 'unchanged' });
  });
});

describe('recompute', () => {
  const recompute = change({ kind: 'recompute', reason: 'calendar' }, at(1));

  it('makes a new version from now on', () => {
    expect(decided(change(put()), recompute).job).toMatchObject({ version: 2, cutMs: NOON + 1, state: 'enabled' });
  });

  it('O-CR-18: a job whose zone is not known is put into the error state with the reason, and comes back', () => {
    const { job } = decided(change(put()));
    const broken = { ...job!, schedule: { kind: 'cron' as const, expression: '0 12 * * *', zone: 'Mars/Phobos' } };
    const stopped = step(broken, recompute).next!;
    expect(stopped.state).toBe('error');
    expect(stopped.stateReason).toContain('Mars/Phobos');
    const mended = step(stopped, change(put({ schedule: { kind: 'cron', expression: '0 12 * * *', zone: 'UTC' } })))
      .next!;
    expect(mended).toMatchObject({ state: 'enabled' });
    expect(mended).not.toHaveProperty('stateReason');
  });

  it('a calendar that makes the record too large is refused, and stops the jobs that had it', () => {
    const dates = Array.from({ length: 1_000 }, (_, i) => new Date(NOON + i * 86_400_000).toISOString().slice(0, 10));
    const ranges = dates.map((date) => ({ from: date, to: date }));
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    const calendars = (size: number) =>
      new Calendars(
        names.map((name) => ({ name, definition: { dates: dates.slice(0, size), ranges: ranges.slice(0, size) } })),
      );
    const much = change(put({ bounds: { calendars: names }, payload: JSON.stringify('x'.repeat(100_000)) }));
    expect(step(null, much, 1, calendars(1_000)).outcome).toMatchObject({ ok: false, code: 'request-too-large' });
    const job = step(null, much, 1, calendars(10)).next!;
    expect(step(job, recompute, 2, calendars(1_000)).next).toMatchObject({ state: 'error' });
  });
});
