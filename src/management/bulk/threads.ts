import { availableParallelism } from 'node:os';
import { Piscina } from 'piscina';
import { siblingModule } from '../../runtime/sibling.ts';
import type { LinesResult, LinesTask } from './check-lines.ts';

const THREADS_MOST = 4;
/**
 * Blocks that are checked while others are on their way into the topic: what is ready goes together, so many small ones (a chunk
 * of a stream has 64 KiB) wait for few answers of the bus.
 */
const BLOCKS_AHEAD = 32;

/** Threads that check bulk lines; they start with the first upload. */
export class LineThreads {
  readonly #threads: number;
  #pool: Piscina<LinesTask, LinesResult> | null = null;

  constructor(threads?: number) {
    this.#threads = threads ?? Math.max(1, Math.min(THREADS_MOST, availableParallelism() - 1));
  }

  /** Blocks of one upload that may be under way at once. */
  get window(): number {
    return this.#threads + BLOCKS_AHEAD;
  }

  run(task: LinesTask): Promise<LinesResult> {
    const file = siblingModule(import.meta.url, 'lines.thread');
    this.#pool ??= new Piscina({ filename: file, minThreads: 1, maxThreads: this.#threads, idleTimeout: 10_000 });
    return this.#pool.run(task);
  }

  async close(): Promise<void> {
    await this.#pool?.destroy();
    this.#pool = null;
  }
}
