import { type Answer, encodeMessage } from '../core/messages.ts';
import { partitionOf } from '../core/murmur2.ts';
import { APPLIER_GROUP, TOPICS } from '../core/topics.ts';
import type { BusLane, BusMessage, BusRecord, TopicMessages } from '../ports/bus.ts';
import type { CatalogStore } from '../ports/catalog-store.ts';
import type { Clock } from '../ports/clock.ts';
import type { JobStore } from '../ports/job-store.ts';
import type { OperationStore } from '../ports/operation-store.ts';
import type { ShardStore } from '../ports/shard-store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { TriggerStore } from '../ports/trigger-store.ts';
import { addMembers, type Told } from './change/add-members.ts';
import { Calendars } from './change/calendars.ts';
import { countOperations } from './change/count-operations.ts';
import { Places } from './change/places.ts';
import { ShardSlots } from './change/shard-slots.ts';
import { ClusterNames, groupByJob, type Work } from './change/work.ts';
import { writeJobs } from './change/write-jobs.ts';

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

/**
 * Tombstones are swept when their change was committed this long ago, in ms: until then they also keep a job that is made
 * again behind the end of the deleted one, where the clocks of two API processes differ.
 */
const SWEEP_AFTER_MS = 600_000;
const SWEEP_EVERY_MS = 60_000;
const SWEEP_AT_ONCE = 1_000;

/**
 * The applier of one changes partition: batch of changes -> job store -> trigger store -> counts -> one transaction with the
 * fast-path messages, the answers and the offset of the input. Each step is conditional or safe to repeat, so a crash
 * between any two, and the same records again, end in the same documents, members, messages, answers and counts. One batch
 * at a time.
 */
export class Applier {
  readonly #deps: ApplierDeps;
  readonly #partition: number;
  readonly #lane: BusLane;
  readonly #places: Places;
  readonly #clusters: ClusterNames;
  readonly #slots: ShardSlots;
  /** Committed offsets with the monotonic time of their commit, a minute apart, oldest first. */
  readonly #committed: { atMs: number; next: number }[] = [];

  constructor(deps: ApplierDeps, partition: number, lane: BusLane) {
    this.#deps = deps;
    this.#partition = partition;
    this.#lane = lane;
    this.#places = new Places(deps.shards, deps.clock);
    this.#clusters = new ClusterNames(deps.catalog);
    this.#slots = new ShardSlots(deps.shards, deps.slotsPerSet);
  }

  /** Applies a batch whole, or throws and has to be given it again. */
  async apply(records: readonly BusRecord[], signal: AbortSignal): Promise<void> {
    const last = records.at(-1);
    if (last === undefined) return;
    const { jobs, triggers, operations, clock, telemetry } = this.#deps;
    const partition = this.#partition;
    const works = await groupByJob(records, this.#clusters, telemetry);
    const calendars = await this.#calendars(works);
    const nowMs = clock.wallMs();
    await writeJobs(works, { jobs, places: this.#places, partition, calendars, nowMs, signal });
    // Calendars are read again now that the jobs are stored. Whoever changes one lists its jobs after that: either this
    // read sees the new calendar, or that list has the job.
    const now = await this.#calendars(works);
    const done = works.flatMap(({ sequence }) => sequence.done);
    const [told] = await Promise.all([
      addMembers(works, triggers, now, telemetry),
      countOperations(operations, partition, done),
    ]);
    const next = last.offset + 1;
    const offset = { group: APPLIER_GROUP, topic: TOPICS.changes, partition, next };
    await this.#lane.commit(await this.#messages(works, told), [offset]);
    for (const { outcome } of done) {
      telemetry.count('changes_applied_total', { result: outcome.ok ? outcome.result : outcome.code });
    }
    await this.#afterCommit(works, next);
  }

  /** Gives the places held back, then lets the lane go. */
  async close(): Promise<void> {
    try {
      await this.#places.giveBack();
    } finally {
      await this.#lane.close();
    }
  }

  async #calendars(works: readonly Work[]): Promise<Calendars> {
    const used = works.some(
      ({ records, sequence }) =>
        sequence.final?.bounds.calendars !== undefined ||
        records.some(
          ({ change: { action } }) => action.kind !== 'put' || action.definition.bounds.calendars !== undefined,
        ),
    );
    return new Calendars(used ? await this.#deps.catalog.calendars() : []);
  }

  async #messages(works: readonly Work[], told: Told): Promise<TopicMessages[]> {
    await this.#slots.know(told.messages.map(({ shard }) => shard));
    const fast: BusMessage[] = told.messages.map(({ shard, message }) => ({
      partition: this.#slots.partition(shard),
      key: `${shard}-${message.number}`,
      value: encodeMessage(message),
    }));
    const answers = works.flatMap((work) =>
      work.sequence.done.flatMap(({ offset, change, outcome, repeated }): BusMessage[] => {
        if (change.replyTo === undefined) return [];
        const { id, replyTo } = change;
        const changed = outcome.ok && outcome.result !== 'unchanged' && !repeated;
        const ownerFollows = changed && told.ownerFollows(work, offset, outcome.result === 'fired');
        const answer: Answer = { v: 1, id, replyTo, from: 'applier', ownerFollows, outcome };
        return [
          { partition: partitionOf(replyTo, this.#deps.answersPartitions), key: replyTo, value: encodeMessage(answer) },
        ];
      }),
    );
    const batch = [
      { topic: TOPICS.fast, messages: fast },
      { topic: TOPICS.answers, messages: answers },
    ];
    return batch.filter(({ messages }) => messages.length > 0);
  }

  /**
   * What may be lost with a crash: then a shard counts a few jobs more than it has, which a reconciliation mends, and
   * tombstones go a little later. Before the commit a repeat would take places away twice.
   */
  async #afterCommit(works: readonly Work[], next: number): Promise<void> {
    const { jobs, shards, clock } = this.#deps;
    const ended = works.flatMap(({ sequence }) => sequence.done.flatMap((one) => one.ended));
    const byShard = Map.groupBy(ended, (shard) => shard);
    if (byShard.size > 0) await shards.addJobs([...byShard].map(([shard, { length }]) => ({ shard, jobs: -length })));

    const nowMs = clock.monotonicMs();
    const last = this.#committed.at(-1);
    if (last !== undefined && nowMs - last.atMs < SWEEP_EVERY_MS) return;
    this.#committed.push({ atMs: nowMs, next });
    const oldest = this.#committed[0]!;
    if (nowMs - oldest.atMs < SWEEP_AFTER_MS) return;
    this.#committed.shift();
    await jobs.sweep(this.#partition, oldest.next, SWEEP_AT_ONCE);
  }
}
