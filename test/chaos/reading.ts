import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Answer, Ask, ReaderOrder } from './reader.ts';
import type { OnceSeen, Verdict } from './tally.ts';

const LOOK_MS = 250;

/** The reader process, as the suite sees it. */
export class Reading {
  readonly #child: ChildProcess;
  #last: Promise<unknown>;

  constructor(order: ReaderOrder) {
    this.#child = fork(fileURLToPath(new URL('./reader.ts', import.meta.url)), [], { serialization: 'advanced' });
    this.#last = this.#answer();
    this.#child.send(order);
  }

  async ready(): Promise<void> {
    await this.#last;
  }

  async verdict(fromMs: number, toMs: number): Promise<NonNullable<Answer['verdict']>> {
    return (await this.#ask({ verdict: { fromMs, toMs } })).verdict!;
  }

  /** Those of the jobs with these numbers that have fired. */
  async once(from: number, upTo: number): Promise<Map<number, OnceSeen>> {
    return new Map((await this.#ask({ once: { from, upTo } })).once);
  }

  /** The verdict over a span, as soon as nothing of it is missing, or the patience is over. */
  async complete(fromMs: number, toMs: number, patienceMs: number): Promise<Verdict> {
    const until = performance.now() + patienceMs;
    for (;;) {
      const verdict = await this.verdict(fromMs, toMs);
      if (verdict.lost === 0 || performance.now() > until) return verdict;
      await sleep(LOOK_MS);
    }
  }

  stop(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  /** One question at a time, since answers carry no name. */
  #ask(ask: Ask): Promise<Answer> {
    const asked = this.#last.then(() => {
      const answer = this.#answer();
      this.#child.send(ask);
      return answer;
    });
    this.#last = asked.catch(() => {});
    return asked;
  }

  #answer(): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const ended = (code: number | null): void => reject(new Error(`the reader ended with ${code}`));
      this.#child.once('exit', ended);
      this.#child.once('message', (message) => {
        this.#child.off('exit', ended);
        resolve(message as Answer);
      });
    });
  }
}
