import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JobDefinition } from '../../../src/core/job.ts';
import { Crash } from '../change/applier-run.ts';
import { Moving } from './moving.ts';

/** One version of a job, as the oracle sees it: `firstMs + k * everyMs` (0: once), nothing when it does not fire. */
interface Version {
  cutMs: number;
  times: { firstMs: number; everyMs: number } | null;
}

/** What was done to one job. Its times are arithmetic: no code of the engine is used. */
interface History {
  versions: Version[];
  /** Width of the window over which it is spread, in ms. */
  spreadMs: number;
  state: 'enabled' | 'paused' | 'deleted';
  /** Times that need not fire: owed by a version that ended before anybody could fire them. */
  optional: Set<number>;
}

type Action =
  | { kind: 'make'; what: 'rate' | 'once' | 'cron' | 'spread'; period: number; shift: number }
  | { kind: 'save' | 'pause' | 'resume' | 'delete'; pick: number }
  | { kind: 'reschedule'; pick: number; period: number }
  | { kind: 'run'; ms: number; stepMs: number; applier: boolean; mover: boolean; deaf: boolean }
  | { kind: 'crash-applier'; at: number; when: 'before' | 'after'; ms: number }
  | { kind: 'crash-mover'; at: number; when: 'before' | 'after' }
  | { kind: 'crash-owner'; slot: number; midway: number; ms: number };

const pick = fc.nat(50);
const when = fc.constantFrom('before' as const, 'after' as const);
const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({
    kind: fc.constant('make' as const),
    what: fc.constantFrom('rate' as const, 'rate' as const, 'once' as const, 'cron' as const, 'spread' as const),
    period: fc.integer({ min: 100, max: 4_000 }),
    shift: fc.integer({ min: 1, max: 6_000 }),
  }),
  fc.record({ kind: fc.constantFrom('save' as const, 'pause' as const, 'resume' as const, 'delete' as const), pick }),
  fc.record({ kind: fc.constant('save' as const), pick }),
  fc.record({ kind: fc.constant('reschedule' as const), pick, period: fc.integer({ min: 100, max: 3_000 }) }),
  ...[1, 2, 3].map(() =>
    fc.record({
      kind: fc.constant('run' as const),
      ms: fc.integer({ min: 1, max: 1_500 }),
      stepMs: fc.integer({ min: 5, max: 200 }),
      applier: fc.constantFrom(true, true, true, false),
      mover: fc.constantFrom(true, true, true, false),
      deaf: fc.constant(false),
    }),
  ),
  fc.record({
    kind: fc.constant('crash-applier' as const),
    at: fc.nat(12),
    when,
    ms: fc.constantFrom(0, 0, 50, 2_500),
  }),
  fc.record({ kind: fc.constant('crash-mover' as const), at: fc.nat(8), when }),
  fc.record({
    kind: fc.constant('crash-owner' as const),
    slot: fc.nat(1),
    midway: fc.nat(4),
    ms: fc.constantFrom(0, 30, 900, 2_500),
  }),
);

class Play {
  readonly moving: Moving;
  readonly histories = new Map<string, History>();
  ownerCrashes = 0;
  #source = 1;

  constructor(moving: Moving) {
    this.moving = moving;
  }

  /** The shard that takes jobs drains, and a new one in the other slot takes its place. */
  async drain(): Promise<void> {
    const { shards } = this.moving.stores;
    await shards.setState(this.#source, 'open', 'draining');
    this.#source += 1;
    await this.moving.shard(this.#source, (this.#source - 1) % 2);
    await this.moving.run(1, 1, { applier: false, mover: false });
  }

  async do(one: Action): Promise<void> {
    const { moving } = this;
    if (one.kind === 'make') await this.#make(one);
    else if (one.kind === 'run') await moving.run(one.ms, one.stepMs, one);
    else if (one.kind === 'crash-mover') await moving.move(new Crash(one.at, one.when));
    else if (one.kind === 'crash-applier') {
      await moving.applyUntilCrash(new Crash(one.at, one.when));
      if (one.ms > 0) await moving.run(one.ms, 50, { applier: false, mover: true });
      await moving.apply(3);
    } else if (one.kind === 'crash-owner') {
      await moving.crashOwner(one.slot, one.midway);
      this.ownerCrashes += 1;
      if (one.ms > 0) await moving.run(one.ms, 60);
      await moving.adopt(one.slot);
    } else await this.#change(one);
  }

  async #make({ what, period, shift }: Extract<Action, { kind: 'make' }>): Promise<void> {
    const key = `k${this.histories.size}`;
    const nowMs = this.moving.nowMs;
    const firstMs = nowMs + shift;
    const every = (everyMs: number, anchorMs: number) => ({ kind: 'rate' as const, everyMs, anchorMs });
    const made: Record<typeof what, [JobDefinition['schedule'], NonNullable<Version['times']>]> = {
      rate: [every(period, firstMs), { firstMs, everyMs: period }],
      spread: [every(period, firstMs), { firstMs, everyMs: period }],
      once: [
        { kind: 'once', atMs: firstMs },
        { firstMs, everyMs: 0 },
      ],
      cron: [
        { kind: 'cron', expression: '*/2 * * * * *' },
        { firstMs: 0, everyMs: 2_000 },
      ],
    };
    const [schedule, times] = made[what];
    const spreadMs = what === 'spread' ? Math.floor(period / 2) : 0;
    await this.#submit(key, {
      kind: 'put',
      definition: {
        schedule,
        bounds: spreadMs > 0 ? { spreadMs } : {},
        misfire: { mode: 'all' },
        payload: 'x',
        contentType: 'text/plain',
      },
    });
    this.histories.set(key, { versions: [{ cutMs: nowMs, times }], spreadMs, state: 'enabled', optional: new Set() });
  }

  async #change(one: Extract<Action, { pick: number }>): Promise<void> {
    const keys = [...this.histories.keys()];
    const key = keys[one.pick % Math.max(1, keys.length)];
    const history = key === undefined ? undefined : this.histories.get(key);
    if (key === undefined || history === undefined || history.state === 'deleted') return;
    const cutMs = this.moving.nowMs;
    const times = history.versions.at(-1)!.times;
    if (one.kind === 'save') {
      const paused = history.state === 'paused';
      await this.#submit(key, { kind: 'patch', fields: { payload: `saved at ${cutMs} ${Math.random()}` } });
      if (!paused) history.versions.push({ cutMs, times });
      return;
    }
    if (history.spreadMs > 0) return;
    if (one.kind === 'resume' && history.state === 'paused') {
      await this.#submit(key, { kind: 'resume' });
      history.versions.push({ cutMs: history.versions.at(-1)!.cutMs, times: history.versions.at(-2)!.times });
      history.state = 'enabled';
    } else if (history.state === 'enabled' && one.kind !== 'resume') {
      await this.#mayBeSuperseded(key, history);
      if (one.kind === 'reschedule') {
        const schedule = { kind: 'rate', everyMs: one.period, anchorMs: cutMs + 1 };
        await this.#submit(key, { kind: 'patch', fields: { schedule } });
        history.versions.push({ cutMs, times: { firstMs: cutMs + 1, everyMs: one.period } });
      } else {
        await this.#submit(key, { kind: one.kind });
        history.versions.push({ cutMs, times: null });
        history.state = one.kind === 'pause' ? 'paused' : 'deleted';
      }
    }
  }

  /** What is overdue when a version ends may not fire any more. */
  async #mayBeSuperseded(key: string, history: History): Promise<void> {
    const fired = new Set((await this.moving.published()).filter((one) => one.key === key).map((one) => one.nominalMs));
    for (const at of timesOf(history, this.moving.nowMs)) if (!fired.has(at)) history.optional.add(at);
  }

  /** A user's change: it is applied, and known to the owners that live, before time goes on. */
  async #submit(key: string, action: Parameters<Moving['send']>[1]): Promise<void> {
    await this.moving.send(key, action);
    await this.moving.apply();
    await this.moving.tell();
  }
}

/** All nominal times of a job that are in force up to an instant, by arithmetic. */
function timesOf(history: History, upToMs: number): number[] {
  const all: number[] = [];
  for (const [i, { cutMs, times }] of history.versions.entries()) {
    if (times === null) continue;
    const endMs = Math.min(upToMs, history.versions[i + 1]?.cutMs ?? upToMs);
    const { firstMs, everyMs } = times;
    if (everyMs === 0) {
      if (firstMs > cutMs && firstMs <= endMs) all.push(firstMs);
      continue;
    }
    const skipped = Math.max(0, Math.floor((cutMs - firstMs) / everyMs) + 1);
    for (let at = firstMs + skipped * everyMs; at <= endMs; at += everyMs) all.push(at);
  }
  return all;
}

async function judge(play: Play): Promise<void> {
  const { moving, histories, ownerCrashes } = play;
  const published = await moving.published();
  const endMs = moving.nowMs;
  for (const one of published) expect(one.atMs).toBeGreaterThanOrEqual(one.nominalMs);
  for (const [key, history] of histories) {
    const own = published.filter((one) => one.key === key);
    const times = own.map(({ nominalMs }) => nominalMs);
    // A repeat after the crash of an at-least-once owner has the same id; nothing else may be repeated.
    const ids = new Set(own.map(({ id }) => id));
    expect({ key, ids: ids.size }).toEqual({ key, ids: new Set(times).size });
    if (moving.delivery === 'exactly-once' || ownerCrashes === 0)
      expect({ key, n: times.length }).toEqual({ key, n: ids.size });
    const expected = new Set(timesOf(history, endMs));
    const { cutMs } = history.versions[0]!;
    const edge = (at: number): boolean =>
      history.spreadMs > 0 && (at > endMs - history.spreadMs || (at > cutMs - history.spreadMs && at <= cutMs));
    const lost = [...expected].filter((at) => !times.includes(at) && !history.optional.has(at) && !edge(at));
    const strange = times.filter((at) => !expected.has(at) && !edge(at));
    expect({ key, lost, strange }).toEqual({ key, lost: [], strange: [] });
  }
}

/** Whether no job is on the move, or in a shard that drains. */
async function isSettled({ stores: { jobs, shards } }: Moving): Promise<boolean> {
  const draining = (await shards.shards()).filter(({ state }) => state === 'draining');
  const left = await Promise.all(draining.map(({ id }) => jobs.byShard(id, -1, 1)));
  return left.flat().length === 0 && (await jobs.using({ moving: true }, null, 1)).length === 0;
}

const FAR = { cutAheadMs: 25_000, goBeforeMs: 1_000, quietMs: 0 };
const NEAR = { cutAheadMs: 1_500, goBeforeMs: 200, quietMs: 0, againMs: 400 };

describe.each(['exactly-once', 'at-least-once'] as const)('jobs move while they fire, %s', (delivery) => {
  test.each([
    ['far', FAR],
    ['near', NEAR],
  ] as const)(
    'each occurrence once, through changes and crashes of all parts, with a %s cut',
    async (_, times) => {
      await fc.assert(
        fc.asyncProperty(fc.array(action, { minLength: 4, maxLength: 30 }), async (actions) => {
          const moving = new Moving(delivery, times);
          await moving.open();
          const play = new Play(moving);
          for (const [i, period] of [150, 700, 1_900].entries()) {
            await play.do({ kind: 'make', what: i === 2 ? 'spread' : 'rate', period, shift: 10 });
          }
          for (const [index, one] of actions.entries()) {
            if (index % 12 === 2) await play.drain();
            await play.do(one);
          }
          for (let n = 0; n < 12 && !(await isSettled(moving)); n += 1) await moving.run(times.cutAheadMs + 1_000, 100);
          await moving.run(300, 10, { applier: true, mover: false });
          await judge(play);
          expect(await isSettled(moving)).toBe(true);
          expect(moving.told.events.filter(({ level }) => level === 'error')).toEqual([]);
          await moving.close();
        }),
        { numRuns: Number(process.env['MOVE_RUNS'] ?? 30) },
      );
    },
    240_000,
  );
});

describe.each(['exactly-once', 'at-least-once'] as const)(
  'an owner that does not read what it is told, %s',
  (delivery) => {
    test.each([1_000, 3_000])('for %i ms of a cut 1.5 s ahead keeps its jobs until it has answered', async (deafMs) => {
      const moving = new Moving(delivery, NEAR);
      await moving.open();
      const play = new Play(moving);
      await play.do({ kind: 'make', what: 'rate', period: 100, shift: 10 });
      await moving.run(300, 20);
      await play.drain();
      await moving.run(deafMs, 20, { deaf: true });
      expect((await moving.stores.jobs.get('c', 'k0'))!.move?.from).toBeUndefined();
      await moving.run(12_000, 20);
      expect(await isSettled(moving)).toBe(true);
      await judge(play);
      await moving.close();
    });
  },
);
