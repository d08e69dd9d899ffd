import { isCode } from '../core/errors.ts';
import { APPLIER_GROUP, TOPICS } from '../core/topics.ts';
import type { BusLane, BusRecord, GroupHolder, GroupOffset } from '../ports/bus.ts';
import type { CatalogStore } from '../ports/catalog-store.ts';
import type { Clock } from '../ports/clock.ts';
import type { JobStore } from '../ports/job-store.ts';
import type { OperationStore } from '../ports/operation-store.ts';
import type { ShardStore } from '../ports/shard-store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { TriggerStore } from '../ports/trigger-store.ts';
import { addMembers } from './change/add-members.ts';
import { countOperations } from './change/count-operations.ts';
import { Lanes } from './change/lanes.ts';
import { Places } from './change/places.ts';
import { ShardSlots } from './change/shard-slots.ts';
import { type AppliedMessages, messagesFor, together } from './change/tell.ts';
import { Tombstones } from './change/tombstones.ts';
import { ClusterNames, groupByJob, type Work } from './change/work.ts';
import { calendarsNow, JobWriter } from './change/write-jobs.ts';

export interface ApplierDeps {
  jobs: JobStore;
  catalog: CatalogStore;
  shards: ShardStore;
  operations: OperationStore;
  triggers: TriggerStore;
  clock: Clock;
  telemetry: Telemetry;
  slotsPerSet: number;
  answersPartitions: number;
}

/** A batch of one changes partition, as it came from the bus. */
export interface ChangesBatch {
  partition: number;
  records: readonly BusRecord[];
  /** Aborted when the partition is taken away. */
  signal: AbortSignal;
  holder: GroupHolder;
}

/** Changes of one round, but one batch at least: bounds the memory of a round and the time until its first answer. */
const ROUND_CHANGES = 4_000;
/** Rounds that are stored side by side: while one waits for the stores the other is decided. */
const ROUNDS_MOST = 2;

interface Waiting extends ChangesBatch {
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** A batch that is in the stores and not committed. */
interface Stored {
  batch: Waiting;
  works: readonly Work[];
  messages: AppliedMessages;
  offset: GroupOffset;
}

/**
 * The applier of the changes partitions that one process holds: batch of changes -> job store -> trigger store -> counts ->
 * one transaction with the fast-path messages, the answers and the offset of the input. Each step is conditional or safe to
 * repeat, so a crash between any two, and the same records again, end in the same documents, members, messages, answers and
 * counts. A partition has one batch at a time.
 *
 * Batches of different partitions have no job in common, so those that wait share a round: one question to each store, one
 * transaction. Two rounds are stored at a time, while others are committed. A round that fails is done again batch by batch,
 * so that what is wrong with one partition stops no other.
 */
export class Applier {
  readonly #deps: ApplierDeps;
  readonly #lanes = new Lanes();
  readonly #places: Places;
  readonly #writer: JobWriter;
  readonly #clusters: ClusterNames;
  readonly #slots: ShardSlots;
  readonly #tombstones = new Map<number, Tombstones>();
  /** At most one for each partition. */
  readonly #waiting: Waiting[] = [];
  #rounds = 0;

  constructor(deps: ApplierDeps) {
    this.#deps = deps;
    this.#places = new Places(deps.shards, deps.clock, (message, error) => this.#tell(message, error));
    this.#writer = new JobWriter(deps.jobs, deps.catalog, this.#places);
    this.#clusters = new ClusterNames(deps.catalog);
    this.#slots = new ShardSlots(deps.shards, deps.slotsPerSet);
  }

  /** Takes a partition with its lane. */
  open(partition: number, lane: BusLane): void {
    this.#lanes.open(partition, lane);
    this.#tombstones.set(partition, new Tombstones(this.#deps.jobs, this.#deps.clock, partition));
    this.#deps.telemetry.gauge('applier_partitions', this.#lanes.size);
  }

  has(partition: number): boolean {
    return this.#lanes.has(partition);
  }

  /** Lets a partition go, whose batches have ended. */
  async close(partition: number): Promise<void> {
    this.#tombstones.delete(partition);
    await this.#lanes.close(partition);
    this.#deps.telemetry.gauge('applier_partitions', this.#lanes.size);
    if (this.#lanes.size === 0) await this.#places.close();
  }

  /** Applies a batch whole, or throws and has to be given it again. */
  apply(batch: ChangesBatch): Promise<void> {
    if (batch.records.length === 0) return Promise.resolve();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ ...batch, resolve, reject });
    this.#deps.telemetry.gauge('applier_batches_waiting', this.#waiting.length);
    if (this.#rounds < ROUNDS_MOST) void this.#work();
    return promise;
  }

  /** Rounds one after the other while any batch waits. It never rejects: what goes wrong is told to whoever gave the batch. */
  async #work(): Promise<void> {
    this.#rounds += 1;
    // Partitions whose records came in one answer of the bus hand them over one after the other.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batches = this.#take();
      this.#deps.telemetry.gauge('applier_batches_waiting', this.#waiting.length);
      await this.#round(batches);
    }
    this.#rounds -= 1;
  }

  #take(): Waiting[] {
    let changes = 0;
    const fits = this.#waiting.findIndex(({ records }, index) => {
      changes += records.length;
      return index > 0 && changes > ROUND_CHANGES;
    });
    return this.#waiting.splice(0, fits === -1 ? this.#waiting.length : fits);
  }

  async #round(batches: readonly Waiting[]): Promise<void> {
    try {
      void this.#commit(await this.#store(batches));
    } catch (error) {
      if (batches.length === 1) batches[0]!.reject(error);
      else for (const batch of batches) await this.#round([batch]);
    }
  }

  async #store(batches: readonly Waiting[]): Promise<Stored[]> {
    const { catalog, triggers, operations, clock, telemetry, answersPartitions } = this.#deps;
    const grouped: { batch: Waiting; works: Work[] }[] = [];
    for (const batch of batches) {
      const works = await groupByJob(batch.partition, batch.records, this.#clusters, telemetry);
      grouped.push({ batch, works });
    }
    const all = grouped.flatMap(({ works }) => works);
    const isOver = (): boolean => batches.some(({ signal }) => signal.aborted);
    await this.#writer.write(all, { nowMs: clock.wallMs(), isOver });
    // Calendars are read again now that the jobs are stored. Whoever changes one lists its jobs after that: either this
    // read sees the new calendar, or that list has the job.
    const now = await calendarsNow(all, catalog);
    const [told] = await Promise.all([
      addMembers(all, triggers, now, telemetry),
      ...grouped.map(({ batch, works }) =>
        countOperations(
          operations,
          batch.partition,
          works.flatMap(({ sequence }) => sequence.done),
        ),
      ),
    ]);
    await this.#slots.know(told.shards);
    return grouped.map(({ batch, works }) => {
      const { partition, holder, records } = batch;
      const next = records.at(-1)!.offset + 1;
      const offset = { group: APPLIER_GROUP, topic: TOPICS.changes, partition, next, holder };
      return { batch, works, messages: messagesFor(works, told, this.#slots, answersPartitions), offset };
    });
  }

  /** Commits a round. It never rejects. */
  async #commit(round: readonly Stored[]): Promise<void> {
    try {
      const partitions = round.map(({ batch }) => batch.partition);
      const messages = together(round.map((stored) => stored.messages));
      const offsets = round.map(({ offset }) => offset);
      await this.#lanes.commit(partitions, messages, offsets);
      for (const stored of round) this.#done(stored);
    } catch (error) {
      if (round.length > 1) for (const stored of round) void this.#commit([stored]);
      else await this.#refused(round[0]!, error);
    }
  }

  async #refused({ batch }: Stored, error: unknown): Promise<void> {
    try {
      // Somebody else has the partition, or had it for a moment: only a lane that is opened anew can tell.
      if (isCode(error, 'lane-fenced')) await this.#lanes.close(batch.partition);
    } catch (closing) {
      this.#tell('a fenced lane did not close cleanly', closing);
    }
    batch.reject(error);
  }

  /**
   * What may be lost with a crash: then a shard counts a few jobs more than it has, which a reconciliation mends, and
   * tombstones go a little later. Before the commit a repeat would take places away twice.
   */
  #done({ batch, works, offset }: Stored): void {
    const { telemetry } = this.#deps;
    const counts = new Map<string, number>();
    for (const { sequence } of works) {
      for (const { outcome, ended } of sequence.done) {
        const result = outcome.ok ? outcome.result : outcome.code;
        counts.set(result, (counts.get(result) ?? 0) + 1);
        this.#places.free(ended);
      }
    }
    for (const [result, n] of counts) telemetry.count('changes_applied_total', { result }, n);
    batch.resolve();
    this.#tombstones
      .get(batch.partition)
      ?.committed(offset.next)
      .catch((error: unknown) => this.#tell('tombstones were not swept', error));
  }

  #tell(message: string, error: unknown): void {
    this.#deps.telemetry.event('warn', message, { error: String(error) });
  }
}
