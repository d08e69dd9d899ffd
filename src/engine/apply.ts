import { changesIn } from '../core/lines.ts';
import { APPLIER_GROUP, TOPICS } from '../core/topics.ts';
import type { BusLane, BusRecord, GroupHolder } from '../ports/bus.ts';
import type { CatalogStore } from '../ports/catalog-store.ts';
import type { Clock } from '../ports/clock.ts';
import type { JobStore } from '../ports/job-store.ts';
import type { OperationStore } from '../ports/operation-store.ts';
import type { ShardStore } from '../ports/shard-store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { TriggerStore } from '../ports/trigger-store.ts';
import { addLines, addMembers, type ShardMessage, type Told } from './change/add-members.ts';
import { Commits, type Stored } from './change/commits.ts';
import { OperationCounter } from './change/count-operations.ts';
import { Lanes } from './change/lanes.ts';
import { Places } from './change/places.ts';
import { ShardSlots } from './change/shard-slots.ts';
import { type AnswersHere, messagesFor } from './change/tell.ts';
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
  /** Whoever asks for changes in this process. */
  answersHere?: AnswersHere;
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
  stored: PromiseWithResolvers<void>;
  committed: PromiseWithResolvers<void>;
  urgent: boolean;
}

/** What a batch came to in the stores. */
interface Made {
  works: readonly Work[];
  /** Of lines that made jobs, how many. */
  created: number;
  told: Told;
  ofLines: readonly ShardMessage[];
}

/** What became of a batch; both fail where it has to be given again. */
export interface Applied {
  /** It is in the stores: the next batch of the partition may come, without jobs of this one. */
  stored: Promise<void>;
  /** Its offset is committed, with what others are told of it. */
  committed: Promise<void>;
}

/**
 * The applier of the changes partitions that one process holds: batch of changes -> job store -> trigger store -> counts ->
 * one transaction with the fast-path messages, the answers and the offset of the input. Each step is conditional or safe to
 * repeat, so a crash between any two, and the same records again, end in the same documents, members, messages, answers and
 * counts. A partition has one batch at a time that is not stored; a batch with jobs of one that is not committed has to wait for that.
 *
 * Batches of different partitions have no job in common, so those that wait share a round: one question to each store, one
 * transaction. Four rounds are stored at a time, while others are committed. A round that fails is done again batch by batch,
 * so that what is wrong with one partition stops no other.
 */
export class Applier {
  readonly #deps: ApplierDeps;
  readonly #lanes = new Lanes();
  readonly #commits: Commits;
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
    this.#commits = new Commits(this.#lanes, deps.clock, (message, error) => this.#tell(message, error));
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

  /** Applies a batch and commits it at once, or throws and has to be given it again. */
  apply(batch: ChangesBatch): Promise<void> {
    return this.#take(batch, true).committed;
  }

  /** Applies a batch; what nobody waits for is committed a little later, with what comes meanwhile. */
  begin(batch: ChangesBatch): Applied {
    return this.#take(batch, false);
  }

  /** Commits what is stored of a partition as soon as may be. */
  hurry(partition: number): void {
    this.#commits.hurry(partition);
  }

  #take(batch: ChangesBatch, urgent: boolean): Applied {
    const stored = Promise.withResolvers<void>();
    const committed = Promise.withResolvers<void>();
    // Whoever gave the batch may look at one of the two only.
    for (const { promise } of [stored, committed]) promise.catch(() => {});
    if (batch.records.length === 0) {
      stored.resolve();
      committed.resolve();
    } else {
      const changes = batch.records.reduce((sum, { value }) => sum + changesIn(value), 0);
      this.#commits.begin(batch.partition);
      this.#waiting.push({ ...batch, changes, stored, committed, urgent });
      this.#deps.telemetry.gauge('applier_batches_waiting', this.#waiting.length);
      if (this.#rounds < ROUNDS_MOST) void this.#work();
    }
    return { stored: stored.promise, committed: committed.promise };
  }

  /** Rounds one after the other while any batch waits. It never rejects: what goes wrong is told to whoever gave the batch. */
  async #work(): Promise<void> {
    this.#rounds += 1;
    // Partitions whose records came in one answer of the bus hand them over one after the other, all in the same turn.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batches = this.#next();
      this.#deps.telemetry.gauge('applier_batches_waiting', this.#waiting.length);
      await this.#round(batches);
    }
    this.#rounds -= 1;
  }

  #next(): Waiting[] {
    let all = 0;
    const fits = this.#waiting.findIndex(({ changes }, index) => {
      all += changes;
      return index > 0 && all > ROUND_CHANGES;
    });
    return this.#waiting.splice(0, fits === -1 ? this.#waiting.length : fits);
  }

  async #round(batches: readonly Waiting[]): Promise<void> {
    try {
      const round = await this.#store(batches);
      this.#commits.add(round);
      for (const { stored } of batches) stored.resolve();
    } catch (error) {
      const [only] = batches;
      if (batches.length > 1) for (const batch of batches) await this.#round([batch]);
      else if (only !== undefined) {
        this.#commits.failed(only.partition);
        only.stored.reject(error);
        only.committed.reject(error);
      }
    }
  }

  async #store(batches: readonly Waiting[]): Promise<Stored[]> {
    const { catalog, triggers, clock, telemetry } = this.#deps;
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
      const ofLines = toldOfLines.size === 0 ? [] : made.flatMap((line) => toldOfLines.get(line) ?? []);
      return this.#stored(batch, { works: ofBatch, created: made.length, told, ofLines });
    });
  }

  /** Tells this process what stands already, and makes ready what is to be committed. */
  #stored({ partition, holder, records, urgent, committed }: Waiting, made: Made): Stored {
    const { answersPartitions, answersHere } = this.#deps;
    const to = { slots: this.#slots, answersPartitions, here: answersHere?.replyTo ?? null };
    const { own, ...messages } = messagesFor(made.works, made.told, made.ofLines, to);
    for (const answer of own.stored) answersHere?.answered(answer);
    const next = records.at(-1)!.offset + 1;
    const waitedFor = messages.fast.length + messages.answers.length + own.committed.length > 0;
    return {
      partition,
      offset: { group: APPLIER_GROUP, topic: TOPICS.changes, partition, next, holder },
      messages,
      urgent: urgent || waitedFor,
      committed: () => {
        this.#done(partition, next, made);
        for (const answer of own.committed) answersHere?.answered(answer);
        committed.resolve();
      },
      refused: committed.reject,
    };
  }

  /**
   * What may be lost with a crash: then a shard counts a few jobs more than it has, which a reconciliation mends, and
   * tombstones go a little later. Before the commit a repeat would take places away twice.
   */
  #done(partition: number, next: number, { works, created }: Made): void {
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
    this.#tombstones
      .get(partition)
      ?.committed(next)
      .catch((error: unknown) => this.#tell('tombstones were not swept', error));
  }

  #tell(message: string, error: unknown): void {
    this.#deps.telemetry.event('warn', message, { error: String(error) });
  }
}
