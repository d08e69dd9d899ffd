import { isCode } from '../core/errors.ts';
import { changesIn } from '../core/lines.ts';
import { APPLIER_GROUP, TOPICS } from '../core/topics.ts';
import type { BusLane, BusRecord, GroupHolder, GroupOffset } from '../ports/bus.ts';
import type { CatalogStore } from '../ports/catalog-store.ts';
import type { Clock } from '../ports/clock.ts';
import type { JobStore } from '../ports/job-store.ts';
import type { OperationStore } from '../ports/operation-store.ts';
import type { ShardStore } from '../ports/shard-store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { TriggerStore } from '../ports/trigger-store.ts';
import { addLines, addMembers } from './change/add-members.ts';
import { OperationCounter } from './change/count-operations.ts';
import { Lanes } from './change/lanes.ts';
import { Places } from './change/places.ts';
import { ShardSlots } from './change/shard-slots.ts';
import { type AppliedMessages, messagesFor, together } from './change/tell.ts';
import { Tombstones } from './change/tombstones.ts';
import { ClusterNames, type Grouped, groupByJob, type Work } from './change/work.ts';
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
/**
 * Rounds that are stored side by side: while one waits for a store the others are decided. (m, bulk of 600,000 on two cores:
 * 2 rounds 23,700/s, 4 rounds 28,500, 8 rounds of 4,000 changes a partition 24,600, since the stores then work against each other.)
 */
const ROUNDS_MOST = 4;

interface Waiting extends ChangesBatch {
  /** Changes in its records. */
  changes: number;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** A batch that is in the stores and not committed. */
interface Stored {
  batch: Waiting;
  works: readonly Work[];
  /** Of lines that made jobs, how many. */
  created: number;
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
 * transaction. Four rounds are stored at a time, while others are committed. A round that fails is done again batch by batch,
 * so that what is wrong with one partition stops no other.
 */
export class Applier {
  readonly #deps: ApplierDeps;
  readonly #lanes = new Lanes();
  readonly #places: Places;
  readonly #writer: JobWriter;
  readonly #counter: OperationCounter;
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
    this.#counter = new OperationCounter(deps.operations);
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
    const changes = batch.records.reduce((sum, { value }) => sum + changesIn(value), 0);
    this.#waiting.push({ ...batch, changes, resolve, reject });
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
    let all = 0;
    const fits = this.#waiting.findIndex(({ changes }, index) => {
      all += changes;
      return index > 0 && all > ROUND_CHANGES;
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
    const { catalog, triggers, clock, telemetry, answersPartitions } = this.#deps;
    const grouped: Grouped[] = [];
    for (const { partition, records } of batches) {
      grouped.push(await groupByJob(partition, records, this.#clusters, telemetry));
    }
    const isOver = (): boolean => batches.some(({ signal }) => signal.aborted);
    const { works, lines } = await this.#writer.write(
      { works: grouped.flatMap((one) => one.works), lines: grouped.flatMap((one) => one.lines) },
      { nowMs: clock.wallMs(), isOver },
    );
    // Calendars are read again now that the jobs are stored. Whoever changes one lists its jobs after that: either this
    // read sees the new calendar, or that list has the job.
    const now = await calendarsNow(works, catalog);
    const own = batches.map((batch) => ({
      batch,
      works: works.filter(({ partition }) => partition === batch.partition),
      lines: lines.filter(({ line }) => line.partition === batch.partition),
    }));
    const [told, toldOfLines] = await Promise.all([
      addMembers(works, triggers, now, telemetry),
      addLines(lines, triggers),
      ...own.map((one) => {
        const done = one.works.flatMap(({ sequence }) => sequence.done);
        return this.#counter.count({ partition: one.batch.partition, done, created: one.lines });
      }),
    ]);
    await this.#slots.know([...told.shards, ...[...toldOfLines.values()].map(({ shard }) => shard)]);
    return own.map(({ batch, works: ofBatch, lines: made }) => {
      const { partition, holder, records } = batch;
      const next = records.at(-1)!.offset + 1;
      const offset = { group: APPLIER_GROUP, topic: TOPICS.changes, partition, next, holder };
      const ofLines = toldOfLines.size === 0 ? [] : made.flatMap((line) => toldOfLines.get(line) ?? []);
      const messages = messagesFor(ofBatch, told, ofLines, this.#slots, answersPartitions);
      return { batch, works: ofBatch, created: made.length, messages, offset };
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
  #done({ batch, works, created, offset }: Stored): void {
    const { telemetry } = this.#deps;
    const counts = new Map<string, number>(created === 0 ? [] : [['created', created]]);
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
