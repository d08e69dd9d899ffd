/**
 * `npm run bench -- diff NEW.json...`: compares results with those of `baseline/` by ratios, and says what became worse. A
 * result is compared with the baseline of the same name, load, envelope and delivery. Another machine has other figures, but
 * the same ratio to its own raw limit; so on another machine only ratios decide, and the rest is shown.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readResult } from './report/files.ts';
import { numbersOf, type Result, round } from './report/result.ts';

export const BASELINE = join(import.meta.dirname, 'baseline');

interface Watched {
  path: RegExp;
  /** Which way is worse. */
  worse: 'more' | 'less';
  /** How much worse is allowed, as a factor: single runs of one machine differ by this much. */
  factor: number;
  /** It says the same on another machine. */
  anywhere?: true;
  /** Below this, differences mean nothing: a few ms, or us of CPU of a process that hardly works. */
  least?: number;
}

const WATCHED: readonly Watched[] = [
  { path: /^ratio_to_raw$/, worse: 'less', factor: 0.9, anywhere: true },
  { path: /^cost_growth$/, worse: 'more', factor: 1.1, anywhere: true },
  { path: /^(lost|duplicated|early|unexpected|disordered)$/, worse: 'more', factor: 1, anywhere: true },
  { path: /_per_s$/, worse: 'less', factor: 0.9 },
  { path: /^lateness_ms\.(p50|p99|p999)$/, worse: 'more', factor: 1.5, least: 5 },
  { path: /^create_ms\.(p50|p99)$/, worse: 'more', factor: 1.5, least: 5 },
  { path: /^last_after_ms$/, worse: 'more', factor: 1.25, least: 50 },
  { path: /^cpu_us_per_\w+\./, worse: 'more', factor: 1.15, least: 0.05 },
  { path: /^rss_mb\./, worse: 'more', factor: 1.3, least: 100 },
];

export interface Difference {
  path: string;
  before: number;
  now: number;
  /** It is worse than allowed. */
  worse: boolean;
}

/** What identifies the load: results of two loads are never compared. */
export function sameLoad(a: Result, b: Result): boolean {
  const key = ({
    name,
    config: { jobs, periodMs, workers, envelope, delivery, rate, payloadBytes, levels, ...more },
  }: Result) =>
    JSON.stringify([
      name,
      jobs,
      periodMs,
      workers,
      envelope,
      delivery,
      more.compression ?? 'none',
      rate,
      payloadBytes,
      levels,
    ]);
  return key(a) === key(b);
}

export function differences(before: Result, now: Result): Difference[] {
  const { cpu, cores } = before.machine;
  const sameMachine = cpu === now.machine.cpu && cores === now.machine.cores;
  const numbers = numbersOf(now);
  const out: Difference[] = [];
  for (const [path, was] of numbersOf(before)) {
    const watched = WATCHED.find((one) => one.path.test(path));
    const is = numbers.get(path);
    if (watched === undefined || is === undefined) continue;
    const bound = was * watched.factor;
    const outside = watched.worse === 'more' ? is > Math.max(bound, watched.least ?? 0) : is < bound;
    out.push({ path, before: was, now: is, worse: outside && (sameMachine || watched.anywhere === true) });
  }
  return out;
}

export function baselines(): Result[] {
  if (!existsSync(BASELINE)) return [];
  const files = readdirSync(BASELINE).filter((file) => file.endsWith('.json'));
  return files.sort().map((file) => readResult(join(BASELINE, file)));
}

/** Exit code 1 when something became worse, 2 when there was nothing to compare. */
export function diff(files: readonly string[]): number {
  const known = baselines();
  let worse = 0;
  let compared = 0;
  for (const file of files) {
    const now = readResult(file);
    const before = known.find((one) => sameLoad(one, now));
    if (before === undefined) {
      console.log(`${file}: there is no baseline of ${now.name} with this load`);
      continue;
    }
    compared += 1;
    console.log(`${file}: ${now.name}, against the baseline`);
    for (const one of differences(before, now)) {
      const ratio = one.before === 0 ? '' : `x ${round(one.now / one.before)}`;
      const mark = one.worse ? '  WORSE' : '';
      console.log(
        `  ${one.path.padEnd(34)}${String(one.before).padStart(12)} -> ${String(one.now).padStart(12)}  ${ratio}${mark}`,
      );
      if (one.worse) worse += 1;
    }
  }
  if (compared === 0) return 2;
  return worse > 0 ? 1 : 0;
}
