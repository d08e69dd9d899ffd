import { carillonError } from '../../core/errors.ts';
import { hasLines } from '../../core/lines.ts';
import type { BusRecord, GroupPartition } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Applied, Applier } from '../apply.ts';

/** Changes of a partition that are not committed; beyond, the next batch waits for the commit. */
const UNCOMMITTED_MOST = 4_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

export interface FlowDeps {
  applier: Applier;
  /** Opens the partition at the applier. */
  open: () => Promise<void>;
  clock: Clock;
  telemetry: Telemetry;
}

/** A batch that is not committed. */
interface Given {
  records: readonly BusRecord[];
  /** Ends when its commit has ended, well or not; it never rejects. */
  over: Promise<void>;
}

/**
 * The batches of one changes partition. The next one is applied while those before wait for their commit, unless it has a job
 * of theirs: what a repeat of a change needs is kept for the changes of a job that are not committed as one batch made them.
 * Where a commit fails, everything that is not committed is applied again, as one batch.
 */
export class Flow {
  readonly #deps: FlowDeps;
  readonly #partition: GroupPartition;
  /** In the order of their offsets. */
  #given: Given[] = [];
  /** Keys of the jobs in them; each is in one batch only. */
  readonly #jobs = new Set<string | null>();
  #changes = 0;
  #repeating: Promise<void> | null = null;

  constructor(deps: FlowDeps, partition: GroupPartition) {
    this.#deps = deps;
    this.#partition = partition;
  }

  /** Answers when the batch is in the stores. @throws where it has to be given again */
  async give(records: readonly BusRecord[]): Promise<void> {
    const { applier, open } = this.#deps;
    const { partition, signal, holder } = this.#partition;
    // What begins below must know everything that is not committed, so the last look is in the same turn.
    const lines = records.some(({ value }) => value !== null && hasLines(value));
    for (;;) {
      if (signal.aborted) throw carillonError('unavailable', `changes partition ${partition} was taken away`);
      if (this.#repeating !== null) await this.#repeating;
      else if (!applier.has(partition)) await open();
      else if (lines ? this.#changes > 0 : this.#mustWait(records)) await this.#settled();
      else break;
    }
    // The jobs of such records are not known before they are read: nothing else is uncommitted beside them.
    if (lines) return applier.apply({ partition, records, signal, holder });
    const applied = applier.begin({ partition, records, signal, holder });
    const one: Given = { records, over: Promise.resolve() };
    this.#given.push(one);
    this.#changes += records.length;
    for (const { key } of records) this.#jobs.add(key);
    one.over = this.#end(one, applied);
    await applied.stored;
  }

  /** Commits what is stored, as far as that goes at once. */
  async close(): Promise<void> {
    await this.#settled();
    await this.#repeating;
  }

  #mustWait(records: readonly BusRecord[]): boolean {
    if (this.#changes > 0 && this.#changes + records.length > UNCOMMITTED_MOST) return true;
    return this.#jobs.size > 0 && records.some(({ key }) => this.#jobs.has(key));
  }

  async #settled(): Promise<void> {
    this.#deps.applier.hurry(this.#partition.partition);
    await Promise.all(this.#given.map(({ over }) => over));
  }

  async #end(one: Given, { stored, committed }: Applied): Promise<void> {
    try {
      await committed;
    } catch (error) {
      const isStored = await stored.then(
        () => true,
        () => false,
      );
      // What is not stored comes again from whoever gave it.
      if (isStored) {
        this.#tell(error);
        this.#repeating ??= this.#repeat();
        return;
      }
    }
    this.#given = this.#given.filter((other) => other !== one);
    this.#changes -= one.records.length;
    for (const { key } of one.records) this.#jobs.delete(key);
  }

  async #repeat(): Promise<void> {
    const { applier, open, clock } = this.#deps;
    const { partition, signal, holder } = this.#partition;
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      await clock.sleep(pauseMs, signal);
      await Promise.all(this.#given.map(({ over }) => over));
      const records = this.#given.flatMap((one) => one.records);
      try {
        if (!applier.has(partition)) await open();
        await applier.apply({ partition, records, signal, holder });
        this.#given = [];
        this.#jobs.clear();
        this.#changes = 0;
        break;
      } catch (error) {
        this.#tell(error);
      }
    }
    this.#repeating = null;
  }

  #tell(error: unknown): void {
    const { telemetry } = this.#deps;
    const { partition } = this.#partition;
    telemetry.count('applier_repeats_total');
    telemetry.event('warn', 'changes were not committed and are applied again', { partition, error: String(error) });
  }
}
