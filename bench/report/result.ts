import type { Lateness } from '../judge/histogram.ts';
import type { Options } from '../options.ts';
import type { Machine } from './machine.ts';

/** What every benchmark ends with, for programs; single benches add fields of their own. */
export interface Result {
  name: string;
  config: Options;
  machine: Machine;
  offered_per_s?: number;
  fired_per_s?: number;
  fired?: number;
  lost?: number;
  duplicated?: number;
  early?: number;
  unexpected?: number;
  disordered?: number;
  lateness_ms?: Lateness;
  raw_limit_per_s?: number;
  ratio_to_raw?: number;
  cpu_us_per_trigger?: Record<string, number>;
  rss_mb?: Record<string, number>;
  /** Greatest gap between the worker's own histogram and the broker's, as a share from 0 to 1. */
  own_lateness_difference?: number;
  /** Lateness over time, for the picture. */
  series?: LatenessSeries;
  /** With `--runs`: how each number of the single runs lay, least and greatest. */
  spread?: Record<string, [number, number]>;
  [more: string]: unknown;
}

export interface LatenessSeries {
  step_ms: number;
  p50: number[];
  p99: number[];
  max: number[];
  fired: number[];
  /** [ms, triggers] of the whole span, only ms that came up. */
  distribution: [number, number][];
}

/** All numbers of a result that can be compared, by path: `lateness_ms.p99`. */
export function numbersOf(result: object, prefix = ''): Map<string, number> {
  const out = new Map<string, number>();
  for (const [name, value] of Object.entries(result)) {
    if (['config', 'machine', 'series', 'spread'].includes(name)) continue;
    if (typeof value === 'number') out.set(prefix + name, value);
    else if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      for (const [path, inner] of numbersOf(value, `${prefix}${name}.`)) out.set(path, inner);
    }
  }
  return out;
}

/**
 * One result of several runs: each number is the median, and `spread` has its least and greatest. What must be 0 (lost,
 * duplicated, early) is the sum instead: one bad run of three is not to be hidden by two good ones.
 */
export function medianOf(results: readonly Result[]): Result {
  if (results.length === 1) return results[0]!;
  const sorted = [...results].sort((a, b) => (a.lateness_ms?.p99 ?? 0) - (b.lateness_ms?.p99 ?? 0));
  const middle = structuredClone(sorted[Math.floor((sorted.length - 1) / 2)]!);
  const all = results.map((result) => numbersOf(result));
  const spread: Record<string, [number, number]> = {};
  for (const path of numbersOf(middle).keys()) {
    const values = all.map((one) => one.get(path)).filter((value) => value !== undefined);
    const ordered = values.sort((a, b) => a - b);
    const value = SUMMED.has(path) ? values.reduce((a, b) => a + b, 0) : ordered[Math.floor((ordered.length - 1) / 2)]!;
    set(middle, path, value);
    spread[path] = [ordered[0]!, ordered.at(-1)!];
  }
  return { ...middle, runs: results.length, spread };
}

const SUMMED = new Set(['lost', 'duplicated', 'early', 'unexpected', 'disordered']);

function set(target: object, path: string, value: number): void {
  const names = path.split('.');
  const last = names.pop()!;
  let at = target as Record<string, unknown>;
  for (const name of names) at = at[name] as Record<string, unknown>;
  at[last] = value;
}

export function round(value: number, digits = 2): number {
  const factor = 10 ** digits;
  return Math.round(value * factor) / factor;
}
