import { describe, expect, it } from 'vitest';
import { ObservedTime } from '../../../src/engine/allot/observed-time.ts';
import { SessionWatch } from '../../../src/engine/allot/session-watch.ts';
import { SlotRates } from '../../../src/engine/allot/slot-rates.ts';
import type { Session } from '../../../src/ports/lease-store.ts';

const sessionOf = (incarnation: string, beat: number, more: Partial<Session> = {}): Session => ({
  incarnation,
  beat,
  role: 'worker',
  host: 'h',
  pid: incarnation.charCodeAt(0),
  startedMs: 0,
  rates: {},
  wheelLagMs: 0,
  wheels: 1,
  ...more,
});

describe('observed time', () => {
  it('runs from the end of one read to the start of the next', () => {
    const time = new ObservedTime();
    time.read(0, 10);
    time.read(100, 110);
    expect(time.nowMs).toBe(90);
    time.failed();
    time.read(300, 310);
    expect(time.nowMs).toBe(90);
    time.read(400, 405);
    expect(time.nowMs).toBe(180);
  });

  it('stands over a slow read, and over a gap in which nobody looked', () => {
    const time = new ObservedTime();
    time.read(0, 1);
    time.read(100, 700);
    expect(time.nowMs).toBe(0);
    time.read(800, 801);
    expect(time.nowMs).toBe(100);
    time.read(5_000, 5_001);
    expect(time.nowMs).toBe(100);
  });
});

describe('session watch', () => {
  /**
   * Looks every 100 ms at sessions of which each renews every 500 ms until its time of death. Answers what was told, with
   * the time; `away` is a time in which reads fail, `deaf` one in which reads work and renewals do not.
   */
  function watch(
    deaths: Record<string, number>,
    untilMs: number,
    more: { away?: [number, number]; deaf?: [number, number] } = {},
  ) {
    const within = (ms: number, span?: [number, number]): boolean =>
      span !== undefined && ms >= span[0] && ms < span[1];
    const names = Object.keys(deaths);
    const beats = new Map(names.map((name) => [name, 0]));
    const seen = new SessionWatch();
    const told: string[] = [];
    const gone = new Set<string>();
    for (let ms = 0; ms <= untilMs; ms += 100) {
      names.forEach((name, n) => {
        // The phases of the renewals are spread over the period.
        const renews = ms % 500 === (n * 100) % 500;
        const lost = within(ms, more.away) || within(ms, more.deaf);
        if (renews && ms < deaths[name]! && !lost) beats.set(name, beats.get(name)! + 1);
      });
      if (within(ms, more.away)) {
        seen.failed();
        continue;
      }
      const sessions = names.filter((name) => !gone.has(name)).map((name) => sessionOf(name, beats.get(name)!));
      const { dead, withheld } = seen.observe(sessions, ms, ms + 1);
      if (withheld > 0) told.push(`${ms} withheld ${withheld}`);
      for (const { incarnation } of dead) {
        told.push(`${ms} ${incarnation}`);
        gone.add(incarnation);
      }
    }
    return told;
  }
  const NEVER = Number.POSITIVE_INFINITY;

  it('tells of a death between 2 and 2.6 s after the last beat', () => {
    // The last renewal of A is at 10,000; it is seen then and there.
    const told = watch({ A: 10_100, B: NEVER, C: NEVER }, 20_000);
    expect(told).toHaveLength(1);
    const [ms, name] = told[0]!.split(' ');
    expect(name).toBe('A');
    expect(Number(ms) - 10_000).toBeGreaterThanOrEqual(2_000);
    expect(Number(ms) - 10_000).toBeLessThanOrEqual(2_600);
  });

  it.each([1, 2])('tells of the death of one of %i workers', (workers) => {
    const deaths = workers === 1 ? { A: 5_000 } : { A: 5_000, B: NEVER };
    expect(watch(deaths, 10_000)).toEqual([expect.stringMatching(/ A$/)]);
  });

  it('counts the sessions of one process once: a process with all roles may die at once', () => {
    const seen = new SessionWatch();
    const dying = (beat: number): Session[] =>
      (['worker', 'manager', 'api'] as const).map((role) => sessionOf(`A${role}`, beat, { role, pid: 1 }));
    let told: string[] = [];
    for (let ms = 0; ms <= 2_500; ms += 100) {
      const verdict = seen.observe([...dying(0), sessionOf('B', ms)], ms, ms + 1);
      expect(verdict.withheld).toBe(0);
      told = verdict.dead.map((session) => session.incarnation);
    }
    expect(told).toEqual(['Aworker', 'Amanager', 'Aapi']);
  });

  it('declares nobody dead over an outage of the store, however long', () => {
    const all = { A: NEVER, B: NEVER, C: NEVER, D: NEVER };
    expect(watch(all, 60_000, { away: [10_000, 40_000] })).toEqual([]);
    expect(watch({ A: NEVER }, 60_000, { away: [10_000, 40_000] })).toEqual([]);
  });

  it('suspects the store when renewals of all stop though reads work, and lets them come back', () => {
    const all = { A: NEVER, B: NEVER, C: NEVER, D: NEVER };
    const told = watch(all, 30_000, { deaf: [10_000, 12_700] });
    expect(told).toEqual([expect.stringMatching(/withheld 4/)]);
  });

  it('declares them dead after one further whole period', () => {
    const told = watch({ A: 10_000, B: 10_000, C: 10_000, D: NEVER }, 30_000);
    expect(told[0]).toMatch(/withheld 3/);
    const withheldMs = Number(told[0]!.split(' ')[0]);
    expect(
      told
        .slice(1)
        .map((line) => line.split(' ')[1])
        .sort(),
    ).toEqual(['A', 'B', 'C']);
    for (const line of told.slice(1)) expect(Number(line.split(' ')[0]) - withheldMs).toBeGreaterThanOrEqual(2_000);
    expect(told).toHaveLength(4);
  });

  it('two of six are not more than a third', () => {
    const told = watch({ A: 10_000, B: 10_000, C: NEVER, D: NEVER, E: NEVER, F: NEVER }, 20_000);
    expect(told.map((line) => line.split(' ')[1]).sort()).toEqual(['A', 'B']);
  });
});

describe('slot rates', () => {
  it('follow what is measured, smoothed, and keep a slot that nobody reports for a while', () => {
    const rates = new SlotRates();
    rates.observe([sessionOf('A', 0, { rates: { a0: 100 } })], 0);
    expect(rates.of('a0')).toBe(100);
    rates.observe([sessionOf('A', 0, { rates: { a0: 200 } })], 5_000);
    expect(rates.of('a0')).toBeCloseTo(163.2, 1);
    rates.observe([sessionOf('A', 0)], 6_000);
    expect(rates.of('a0')).toBeCloseTo(160.5, 1);
    expect(rates.of('a9')).toBe(0);
  });

  it('start from what was stored, where nothing is measured yet', () => {
    const rates = new SlotRates();
    rates.observe([sessionOf('A', 0, { rates: { a0: 100 } })], 0);
    rates.seed(
      new Map([
        ['a0', 7],
        ['a1', 7],
      ]),
    );
    expect([rates.of('a0'), rates.of('a1')]).toEqual([100, 7]);
  });
});
