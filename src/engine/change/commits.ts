import { isCode } from '../../core/errors.ts';
import type { GroupOffset } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Lanes } from './lanes.ts';
import { type AppliedMessages, together } from './tell.ts';

/** A batch that is in the stores and not committed. */
export interface Stored {
  partition: number;
  offset: GroupOffset;
  messages: AppliedMessages;
  /** Somebody waits for the commit. */
  urgent: boolean;
  committed: () => void;
  refused: (error: unknown) => void;
}

/**
 * What nobody waits for is committed this long after it was stored, in ms, with all that comes meanwhile. A transaction costs
 * a broker as much as several hundred changes; what was applied since the last one is applied again after a crash.
 */
const COMMIT_AFTER_MS = 200;

/** The batches of one partition. */
interface Line {
  /** Begun and neither committed nor refused. */
  open: number;
  /** In the order in which they are to be committed. */
  stored: Stored[];
  committing: boolean;
  /** Why one was not committed: what stands behind it is not either, since its offset would pass it over. */
  broken: { error: unknown } | null;
}

/**
 * Commits what is in the stores: of each partition in order, of all partitions together, one transaction with the messages to
 * owners, the answers and the offsets. A partition has one commit on the way; what is stored meanwhile goes with the next.
 */
export class Commits {
  readonly #lanes: Lanes;
  readonly #clock: Clock;
  readonly #onError: (message: string, error: unknown) => void;
  readonly #lines = new Map<number, Line>();
  #cancelTimer: (() => void) | null = null;

  constructor(lanes: Lanes, clock: Clock, onError: (message: string, error: unknown) => void) {
    this.#lanes = lanes;
    this.#clock = clock;
    this.#onError = onError;
  }

  /** A batch of this partition is about to be stored. */
  begin(partition: number): void {
    this.#line(partition).open += 1;
  }

  /** A batch that was begun is not stored. */
  failed(partition: number): void {
    this.#ended(partition, 1);
  }

  /** Takes batches of one round, each of a partition of its own. */
  add(round: readonly Stored[]): void {
    for (const stored of round) {
      const line = this.#line(stored.partition);
      if (line.broken === null) line.stored.push(stored);
      else {
        stored.refused(line.broken.error);
        this.#ended(stored.partition, 1);
      }
    }
    this.#plan();
  }

  /** Commits what is stored of a partition as soon as may be. */
  hurry(partition: number): void {
    for (const stored of this.#lines.get(partition)?.stored ?? []) stored.urgent = true;
    this.#plan();
  }

  #plan(): void {
    const ready = [...this.#lines].filter(([, { stored, committing }]) => stored.length > 0 && !committing);
    if (ready.length === 0) return;
    if (!ready.some(([, { stored }]) => stored.some(({ urgent }) => urgent))) {
      this.#cancelTimer ??= this.#clock.after(COMMIT_AFTER_MS, () => {
        this.#cancelTimer = null;
        for (const [partition] of this.#lines) this.hurry(partition);
      });
      return;
    }
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    const taken = ready.map(([, line]) => {
      line.committing = true;
      return line.stored.splice(0);
    });
    void this.#commit(taken);
  }

  /** One commit of the batches of some partitions. It never rejects. */
  async #commit(taken: readonly Stored[][]): Promise<void> {
    try {
      const all = taken.flat();
      const partitions = taken.map((own) => own[0]!.partition);
      const offsets = taken.map((own) => own.at(-1)!.offset);
      await this.#lanes.commit(partitions, together(all.map(({ messages }) => messages)), offsets);
      for (const own of taken) this.#over(own, null);
    } catch (error) {
      // What is wrong with one partition stops no other.
      if (taken.length > 1) await Promise.all(taken.map((own) => this.#commit([own])));
      else await this.#refused(taken[0]!, error);
    }
    this.#plan();
  }

  async #refused(own: readonly Stored[], error: unknown): Promise<void> {
    try {
      // Somebody else has the partition, or had it for a moment: only a lane that is opened anew can tell.
      if (isCode(error, 'lane-fenced')) await this.#lanes.close(own[0]!.partition);
    } catch (closing) {
      this.#onError('a fenced lane did not close cleanly', closing);
    }
    this.#over(own, { error });
  }

  #over(own: readonly Stored[], broken: Line['broken']): void {
    const [{ partition }] = own as [Stored];
    const line = this.#line(partition);
    line.committing = false;
    line.broken = broken;
    const ended = broken === null ? own : [...own, ...line.stored.splice(0)];
    for (const stored of ended) {
      if (broken === null) stored.committed();
      else stored.refused(broken.error);
    }
    this.#ended(partition, ended.length);
  }

  #line(partition: number): Line {
    let line = this.#lines.get(partition);
    if (line === undefined) {
      line = { open: 0, stored: [], committing: false, broken: null };
      this.#lines.set(partition, line);
    }
    return line;
  }

  /** Nothing of a partition is open any more: it begins anew. */
  #ended(partition: number, batches: number): void {
    const line = this.#line(partition);
    line.open -= batches;
    if (line.open === 0) this.#lines.delete(partition);
  }
}
