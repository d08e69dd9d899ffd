/**
 * The oracle of demos and benchmarks: which occurrences a job must have. It shares no code with the engine: arithmetic for
 * fixed rate and one-shot, for cron a committed table made by another implementation (`make_cron_table.py` names it).
 */
import { readFileSync } from 'node:fs';

export type OracleSchedule =
  | { kind: 'rate'; everyMs: number; anchorMs: number }
  | { kind: 'once'; atMs: number }
  | { kind: 'cron'; expression: string; zone: string };

interface CronTable {
  maker: string;
  /** Local seconds of the day as [first, step, count] runs. */
  expressions: Record<string, [number, number, number][]>;
  /** [UTC seconds from which on, offset in seconds], ascending. */
  zones: Record<string, [number, number][]>;
  previews: Record<string, string[] | null>;
}

export const cronTable: CronTable = JSON.parse(readFileSync(new URL('./cron-table.json', import.meta.url), 'utf8'));

const DAY_S = 86_400;
/** The table knows no clock changes, so zones that have one this near are left out by `calmZones`. */
const NEAR_CHANGE_S = 3 * 3600;
const bits = new Map<string, Uint8Array>();

function daySeconds(expression: string): Uint8Array {
  let found = bits.get(expression);
  if (found === undefined) {
    const runs = cronTable.expressions[expression];
    if (runs === undefined) throw new Error(`the cron table has no ${expression}`);
    found = new Uint8Array(DAY_S);
    for (const [first, step, count] of runs) for (let i = 0; i < count; i++) found[first + i * step] = 1;
    bits.set(expression, found);
  }
  return found;
}

function offsetAt(zone: string, second: number): number {
  const pairs = cronTable.zones[zone];
  if (pairs === undefined) throw new Error(`the cron table has no zone ${zone}`);
  let offset = pairs[0]![1];
  for (const [from, next] of pairs) if (from <= second) offset = next;
  return offset;
}

/** Zones of the table without a clock change within 3 h of the span, in the table's order. */
export function calmZones(fromMs: number, toMs: number): string[] {
  return Object.entries(cronTable.zones)
    .filter(([, pairs]) =>
      pairs.every(([at], i) => i === 0 || at < fromMs / 1000 - NEAR_CHANGE_S || at > toMs / 1000 + NEAR_CHANGE_S),
    )
    .map(([zone]) => zone);
}

/** Nominal times in (afterMs, upToMs], ascending, UTC ms. */
export function occurrences(schedule: OracleSchedule, afterMs: number, upToMs: number): number[] {
  const out: number[] = [];
  if (schedule.kind === 'once') {
    if (schedule.atMs > afterMs && schedule.atMs <= upToMs) out.push(schedule.atMs);
  } else if (schedule.kind === 'rate') {
    const { anchorMs, everyMs } = schedule;
    let n = Math.max(0, Math.floor((afterMs - anchorMs) / everyMs) + 1);
    for (; anchorMs + n * everyMs <= upToMs; n++) out.push(anchorMs + n * everyMs);
  } else {
    const fires = daySeconds(schedule.expression);
    for (let s = Math.floor(afterMs / 1000) + 1; s * 1000 <= upToMs; s++) {
      const local = s + offsetAt(schedule.zone, s);
      if (fires[((local % DAY_S) + DAY_S) % DAY_S] === 1) out.push(s * 1000);
    }
  }
  return out;
}

/** Average fires per second of an expression over the hour from a time on. */
export function cronRate(expression: string, zone: string, fromMs: number): number {
  return occurrences({ kind: 'cron', expression, zone }, fromMs, fromMs + 3_600_000).length / 3_600;
}
