import type { JobForm } from '../../src/core/form/job-form.ts';
import { calmZones, cronRate, cronTable, type OracleSchedule } from '../oracle/occurrences.ts';

/** A generated job: as it is registered, and as the oracle knows it. */
export interface DemoJob {
  form: JobForm;
  oracle: OracleSchedule;
}

export interface DemoPlan {
  jobs: number;
  /** The firing is judged from here to there, UTC ms. */
  fromMs: number;
  toMs: number;
  /** Periods of fixed rates, in ms. */
  periodsMs: readonly number[];
  /** Cron expressions with more fires per second than this are left out. */
  cronMaxPerSecond: number;
  seed: number;
}

/** mulberry32: a small seeded generator, so that a demo can be run again with the same jobs. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** Jobs of all kinds: 55 % fixed rate with anchors at any ms, 35 % cron in the zones of the table, 10 % one-shot. */
export function demoJobs(plan: DemoPlan): DemoJob[] {
  const next = random(plan.seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!;
  const zones = calmZones(plan.fromMs, plan.toMs);
  const expressions = Object.keys(cronTable.expressions).filter((expression) => {
    const rate = cronRate(expression, 'UTC', plan.fromMs);
    return rate > 0 && rate <= plan.cronMaxPerSecond;
  });
  const jobs: DemoJob[] = [];
  for (let i = 0; i < plan.jobs; i++) {
    const key = `demo/${i}`;
    const kind = i % 20;
    let oracle: OracleSchedule;
    let schedule: JobForm['schedule'];
    if (kind < 11) {
      const everyMs = pick(plan.periodsMs);
      const anchorMs = plan.fromMs - Math.floor(next() * everyMs);
      oracle = { kind: 'rate', everyMs, anchorMs };
      schedule = { kind: 'rate', everyMs, anchor: iso(anchorMs) };
    } else if (kind < 18) {
      const expression = pick(expressions);
      const zone = zones[i % zones.length]!;
      oracle = { kind: 'cron', expression, zone };
      schedule = { kind: 'cron', expression, zone };
    } else {
      const atMs = plan.fromMs + Math.ceil(next() * (plan.toMs - plan.fromMs));
      oracle = { kind: 'once', atMs };
      schedule = { kind: 'once', at: iso(atMs) };
    }
    jobs.push({ form: { key, schedule, payload: { demo: i } }, oracle });
  }
  return jobs;
}
