import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ReadOrder, ReadVerdict } from './process.ts';

interface Told {
  ready?: true;
  progress?: unknown;
  verdict?: ReadVerdict;
  error?: string;
}

/** The reader process, as a benchmark sees it. */
export class Reader {
  readonly #child: ChildProcess;
  readonly #ready: Promise<void>;
  readonly #verdict: Promise<ReadVerdict>;

  constructor(order: ReadOrder, onProgress: (counts: unknown) => void = () => {}) {
    this.#child = fork(fileURLToPath(new URL('./process.ts', import.meta.url)), [], {
      serialization: 'advanced',
      execArgv: ['--max-semi-space-size=64'],
    });
    const ready = Promise.withResolvers<void>();
    const verdict = Promise.withResolvers<ReadVerdict>();
    this.#ready = ready.promise;
    this.#verdict = verdict.promise;
    this.#verdict.catch(() => {});
    this.#ready.catch(() => {});
    const failed = (error: Error): void => {
      ready.reject(error);
      verdict.reject(error);
    };
    this.#child.on('message', (told: Told) => {
      if (told.ready) ready.resolve();
      if (told.progress !== undefined) onProgress(told.progress);
      if (told.verdict !== undefined) verdict.resolve(told.verdict);
      if (told.error !== undefined) failed(new Error(`the reader: ${told.error}`));
    });
    this.#child.once('exit', (code) => failed(new Error(`the reader ended with ${code}`)));
    this.#child.send(order);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Reading live, it has its connection when this answers. */
  async ready(): Promise<void> {
    await this.#ready;
  }

  /** Reads to the end of what is committed, and judges. */
  async verdict(): Promise<ReadVerdict> {
    await this.#ready;
    if (this.#child.connected) this.#child.send({ finish: true });
    return await this.#verdict;
  }

  stop(): void {
    if (this.#child.connected) this.#child.disconnect();
  }
}

/** Reads a topic whole and judges it. */
export async function readWhole(order: Omit<ReadOrder, 'live'>): Promise<ReadVerdict> {
  const reader = new Reader({ ...order, live: false });
  try {
    return await reader.verdict();
  } finally {
    reader.stop();
  }
}
