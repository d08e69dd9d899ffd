import { ADOPT_KEY, decodeMessage, PROGRESS_KEY, type Progress } from '../../core/messages.ts';
import { TOPICS } from '../../core/topics.ts';
import type { Bus, BusReader } from '../../ports/bus.ts';

/** Records of the progress topic that are read before its end; where no progress is among them the next one is waited for. */
const PROGRESS_TAIL = 1_000;
/** A reader that brings nothing for this long is asked again, in ms. */
const READ_WAIT_MS = 100;

/** What one slot has committed, followed from outside: its T and the jobs that owe something behind a cursor. */
export class SlotLog {
  readonly #progress: BusReader;
  readonly #cursors: BusReader;
  readonly #owing = new Set<string>();
  #t: number | null = null;

  private constructor(progress: BusReader, cursors: BusReader) {
    this.#progress = progress;
    this.#cursors = cursors;
  }

  static async open(bus: Bus, partition: number): Promise<SlotLog> {
    const { first, end } = (await bus.offsets(TOPICS.progress))[partition]!;
    const progress = await bus.reader(TOPICS.progress, partition, Math.max(first, end - PROGRESS_TAIL));
    try {
      return new SlotLog(progress, await bus.reader(TOPICS.cursors, partition, 'first'));
    } catch (error) {
      await progress.close();
      throw error;
    }
  }

  /**
   * Reads what was committed since; cursors after progress and up to all that was written by then, so that none is missing of
   * those that T has passed: a commit does not show itself in both topics at the same instant.
   */
  async read(): Promise<void> {
    for await (const { key, value } of newest(this.#progress, 'visible')) {
      const progress = key === PROGRESS_KEY && value !== null ? decodeMessage<Progress>(value) : null;
      if (progress !== null) this.#t = progress.t;
    }
    for await (const { key, value } of newest(this.#cursors, 'written')) {
      if (key === null || key === ADOPT_KEY) continue;
      if (value === null) this.#owing.delete(key);
      else this.#owing.add(key);
    }
  }

  /** Committed T, UTC ms; null: nothing was committed lately. */
  get t(): number | null {
    return this.#t;
  }

  /** Whether a job has a cursor, by `SHARD-NUMBER`. */
  owes(shard: number, number: number): boolean {
    return this.#owing.has(`${shard}-${number}`);
  }

  async close(): Promise<void> {
    await Promise.allSettled([this.#progress.close(), this.#cursors.close()]);
  }
}

async function* newest(reader: BusReader, upTo: 'visible' | 'written') {
  while (!(await reader.caughtUp(upTo))) yield* await reader.read(READ_WAIT_MS);
}
