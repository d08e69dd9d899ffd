import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Segment, Verdict } from '../judge.ts';

/** What a demo ends with, for people and, with `--json FILE`, for programs. */
export interface DemoResult {
  fired: number;
  offered_per_s: number;
  fired_per_s: number;
  jobs: number;
  seconds: number;
  lost: number;
  duplicated: number;
  early: number;
  unexpected: number;
  lateness_ms: Verdict['lateness_ms'];
  [more: string]: unknown;
}

export function resultOf(verdict: Verdict, jobs: number, seconds: number): DemoResult {
  const { fired, expected, lost, duplicated, early, unexpected, lateness_ms } = verdict;
  const perSecond = (n: number): number => Math.round((n / seconds) * 10) / 10;
  return {
    fired,
    offered_per_s: perSecond(expected),
    fired_per_s: perSecond(fired),
    jobs,
    seconds,
    lost,
    duplicated,
    early,
    unexpected,
    lateness_ms,
  };
}

export function printResult(title: string, result: DemoResult): void {
  const { p50, p99, p999, max } = result.lateness_ms;
  const rows: [string, unknown][] = Object.entries(result).filter(([name]) => name !== 'lateness_ms');
  rows.push(['lateness p50 / p99 / p99.9 / max', `${p50} / ${p99} / ${p999} / ${max} ms`]);
  console.log(`\n${title}`);
  for (const [name, value] of rows) console.log(`  ${name.padEnd(34)}${String(value)}`);
}

/** What breaks the promise, as sentences; empty when all holds. */
export function failures(result: DemoResult, limits: { p99Ms: number; offeredLeast: number }): string[] {
  const out: string[] = [];
  for (const name of ['lost', 'duplicated', 'early', 'unexpected'] as const) {
    if (result[name] !== 0) out.push(`${name} is ${result[name]}, must be 0`);
  }
  if (result.lateness_ms.p99 > limits.p99Ms)
    out.push(`p99 is ${result.lateness_ms.p99} ms, must be <= ${limits.p99Ms}`);
  if (result.offered_per_s < limits.offeredLeast) {
    out.push(`${result.offered_per_s} triggers/s were offered, must be >= ${limits.offeredLeast}`);
  }
  return out;
}

/** The reader process, as its parent sees it. */
export class Reader {
  readonly #child: ChildProcess;
  readonly #ready: Promise<unknown>;

  constructor(args: readonly string[]) {
    this.#child = fork(fileURLToPath(new URL('./reader.ts', import.meta.url)), args);
    this.#ready = this.#message();
  }

  async ready(): Promise<void> {
    await this.#ready;
  }

  async judge(jobs: ReadonlyMap<string, readonly Segment[]>, fromMs: number, toMs: number): Promise<Verdict> {
    const folder = mkdtempSync(join(tmpdir(), 'carillon-demo-'));
    try {
      const jobsFile = join(folder, 'jobs.json');
      writeFileSync(
        jobsFile,
        JSON.stringify([...jobs], (_, value) => (value === Number.POSITIVE_INFINITY ? 1e15 : value)),
      );
      const answer = this.#message();
      this.#child.send({ jobsFile, fromMs, toMs });
      const { verdict, error } = (await answer) as { verdict?: Verdict; error?: string };
      if (verdict === undefined) throw new Error(error);
      return verdict;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  stop(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  #message(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const ended = (code: number | null): void => reject(new Error(`the reader ended with ${code}`));
      this.#child.once('exit', ended);
      this.#child.once('message', (message) => {
        this.#child.off('exit', ended);
        resolve(message);
      });
    });
  }
}
