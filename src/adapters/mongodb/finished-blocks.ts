/**
 * Records of finished one-shots as blocks: one document for those of a shard, logical cluster and version that ended together,
 * in place of one changed document for each. (m, mongod's CPU a job, 80,000 of 300,000 jobs in the order in which they are due:
 * 27 us to change their documents, 55 with the index by state, half of it eviction, since every page of the collection is
 * changed again and again; 0.4 us for blocks.)
 *
 * What a block says holds for one version of a job for ever, so it is written without a condition and a reader compares the
 * version. `fold` brings blocks of a whole shard into the documents, where (m) 15 us a job are enough, since those lie together.
 * It leaves the block there for some time, so that whoever has read the document before finds the block after.
 */
import {
  type ClientSession,
  type Collection,
  type Db,
  type IndexDescription,
  type MongoClient,
  ObjectId,
} from 'mongodb';
import type { Job } from '../../core/job.ts';
import type { FinishedJob } from '../../ports/job-endings.ts';
import type { JobDocument } from './job-document.ts';

export const FINISHED = 'finished';

/** Longer than any read takes from the document to the block: a call ends after 10 s. */
const FOLDED_KEPT_S = 60;

export const FINISHED_INDEXES: readonly IndexDescription[] = [
  // What is read with jobs, and fold.
  { key: { shard: 1 } },
  // counts
  { key: { cluster: 1, jobs: 1 } },
  // The oldest one for fold.
  { key: { atMs: 1 }, partialFilterExpression: { jobs: { $gt: 0 } } },
  { key: { foldedAt: 1 }, expireAfterSeconds: FOLDED_KEPT_S },
];

/** Fewer one-shots than this at a time are marked in their documents: there is no need, and everybody sees them at once. */
export const BLOCKS_FROM = 500;
/** Jobs that one fold takes, all of one shard unless there are more. */
const FOLD_JOBS = 10_000;
/** Jobs of one transaction of a fold: for its some 40 ms nobody else can write them. */
const TRANSACTION_JOBS = 2_000;

interface FinishedBlock {
  _id: ObjectId;
  shard: number;
  cluster: string;
  version: number;
  numbers: number[];
  /** How many they are; 0 when they are folded. */
  jobs: number;
  /** When they were recorded, UTC ms. */
  atMs: number;
  foldedAt?: Date;
}

/** What the marks of both ways set. */
export function finishedAt(nowMs: number) {
  return { $set: { state: 'finished' as const, updatedMs: nowMs } };
}

export class FinishedBlocks {
  readonly #client: MongoClient;
  readonly #blocks: Collection<FinishedBlock>;
  readonly #jobs: Collection<JobDocument>;

  constructor(db: Db, jobs: Collection<JobDocument>) {
    this.#client = db.client;
    this.#blocks = db.collection(FINISHED);
    this.#jobs = jobs;
  }

  async write(ended: readonly FinishedJob[], atMs: number): Promise<void> {
    const blocks = new Map<string, FinishedBlock>();
    for (const { shard, number, version, oneShotOf: cluster = '' } of ended) {
      const name = `${shard} ${version} ${cluster}`;
      const block = blocks.get(name);
      if (block === undefined) {
        blocks.set(name, { _id: new ObjectId(), shard, cluster, version, numbers: [number], jobs: 1, atMs });
      } else {
        block.numbers.push(number);
        block.jobs += 1;
      }
    }
    await this.#blocks.insertMany([...blocks.values()], { ordered: false });
  }

  /** Jobs as their documents say, with what blocks say of those that are enabled one-shots. */
  async over(jobs: Job[]): Promise<Job[]> {
    const open = jobs.filter(
      ({ state, schedule, deleted }) => state === 'enabled' && schedule.kind === 'once' && !deleted,
    );
    if (open.length === 0) return jobs;
    const finished = await this.of([...new Set(open.map(({ shard }) => shard))]);
    if (finished.size === 0) return jobs;
    const asked = new Set(open);
    return jobs.map((job) => {
      const atMs = asked.has(job) ? finished.get(nameOf(job)) : undefined;
      return atMs === undefined ? job : { ...job, state: 'finished', updatedMs: atMs };
    });
  }

  /** When the jobs of some shards that stand in blocks were recorded, by `nameOf`. */
  async of(shards: readonly number[]): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    const blocks = this.#blocks.find({ shard: shards.length === 1 ? shards[0]! : { $in: [...shards] } });
    for await (const { shard, version, numbers, atMs } of blocks) {
      for (const number of numbers) found.set(nameOf({ shard, number, version }), atMs);
    }
    return found;
  }

  /** How many jobs stand in blocks that are not folded. */
  async count(cluster: string | undefined, session: ClientSession): Promise<number> {
    const match = { cluster: cluster ?? { $gt: '' }, jobs: { $gt: 0 } };
    const [sum] = await this.#blocks
      .aggregate<{ n: number }>([{ $match: match }, { $group: { _id: null, n: { $sum: '$jobs' } } }], {
        session,
        readConcern: 'snapshot',
      })
      .toArray();
    return sum?.n ?? 0;
  }

  /** Documents and blocks change in one transaction, so that counts, which read at one moment, have each job once. */
  async fold(): Promise<number> {
    const unfolded = { jobs: { $gt: 0 } };
    const [oldest] = await this.#blocks.find(unfolded).sort({ atMs: 1 }).limit(1).toArray();
    if (oldest === undefined) return 0;
    let folded = 0;
    let blocks: FinishedBlock[] = [];
    let jobs = 0;
    for await (const block of this.#blocks.find({ shard: oldest.shard, ...unfolded })) {
      blocks.push(block);
      jobs += block.jobs;
      if (jobs < TRANSACTION_JOBS) continue;
      await this.#foldBlocks(blocks);
      folded += jobs;
      blocks = [];
      jobs = 0;
      if (folded >= FOLD_JOBS) break;
    }
    if (blocks.length > 0) await this.#foldBlocks(blocks);
    return folded + jobs;
  }

  /** Repeated, after a crash or by two at once, it changes nothing. */
  async #foldBlocks(blocks: readonly FinishedBlock[]): Promise<void> {
    const operations = blocks.map(({ shard, version, numbers, atMs }) => {
      const filter = { shard, number: { $in: numbers }, version, state: 'enabled' as const, deleted: false };
      return { updateMany: { filter, update: finishedAt(atMs) } };
    });
    const ids = blocks.map(({ _id }) => _id);
    await this.#client.withSession((session) =>
      session.withTransaction(async () => {
        await this.#jobs.bulkWrite(operations, { session });
        await this.#blocks.updateMany(
          { _id: { $in: ids } },
          { $set: { jobs: 0 }, $currentDate: { foldedAt: true } },
          { session },
        );
      }),
    );
  }
}

export function nameOf({ shard, number, version }: Pick<Job, 'shard' | 'number' | 'version'>): string {
  return `${shard} ${number} ${version}`;
}
