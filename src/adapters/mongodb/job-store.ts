import { type ClientSession, type Collection, type Db, type Filter, type IndexDescription, ObjectId } from 'mongodb';
import { carillonError } from '../../core/errors.ts';
import type { Job, JobState } from '../../core/job.ts';
import type { JobQuery, JobStore, JobUse, JobVersion } from '../../ports/job-store.ts';
import { BLOCKS_FROM, FinishedBlocks, finishedAt, nameOf } from './finished-blocks.ts';
import { insertDocuments, insertLineDocuments } from './insert.ts';
import { fromDocument, type JobDocument, jobId, toDocument } from './job-document.ts';

export const JOBS = 'jobs';

const OTHER_STATES: JobState[] = ['paused', 'finished', 'terminated', 'error'];
const NOT_LIVE: Filter<JobDocument> = { $or: [{ deleted: true }, { state: { $in: OTHER_STATES } }] };

export const JOB_INDEXES: readonly IndexDescription[] = [
  // byShard, finish and fail; no number is given twice.
  { key: { shard: 1, number: 1 }, unique: true },
  // list by a state; counts, which it answers without reading a document. Enabled jobs, which nearly all are, are not in it:
  // they are what is left of the jobs by key. (m: an index of all states costs mongod 4 us a new job of 16.)
  { key: { cluster: 1, deleted: 1, state: 1, _id: 1 }, name: 'not_live', partialFilterExpression: NOT_LIVE },
  // using
  { key: { zone: 1, _id: 1 }, partialFilterExpression: { zone: { $exists: true } } },
  { key: { calendars: 1, _id: 1 }, partialFilterExpression: { calendars: { $exists: true } } },
  { key: { deleted: 1, _id: 1 }, partialFilterExpression: { 'move.cutMs': { $exists: true } } },
  // sweep
  { key: { 'position.partition': 1, 'position.offset': 1 }, partialFilterExpression: { deleted: true } },
];

const MOST_KEYS = 10_000;
/** Jobs that a page of enabled ones looks at. */
const LOOKED_AT = 5_000;

/**
 * Zones asked for in one query. MongoDB merges the sorted ranges of up to 200 values of an index; beyond, it would sort in
 * memory.
 */
const ZONES_PER_QUERY = 100;

export function mongoJobStore(db: Db): JobStore {
  const jobs = db.collection<JobDocument>(JOBS);
  const finished = new FinishedBlocks(db, jobs);
  const page = async (filter: Filter<JobDocument>, limit: number): Promise<Job[]> => {
    const found = await jobs.find(filter).sort({ _id: 1 }).limit(limit).toArray();
    return await finished.over(found.map(fromDocument));
  };

  return {
    async get(cluster, key): Promise<Job | null> {
      const document = await jobs.findOne({ _id: jobId(cluster, key) });
      return document === null ? null : (await finished.over([fromDocument(document)]))[0]!;
    },

    async getMany(wanted): Promise<Job[]> {
      if (wanted.length === 0) return [];
      if (wanted.length > MOST_KEYS) throw carillonError('internal', `getMany of ${wanted.length} keys`);
      // One job is the normal case of a change, and a find of one document costs half of a cursor.
      const [only] = wanted;
      if (wanted.length === 1) return [(await this.get(only!.cluster, only!.key)) ?? []].flat();
      const ids = wanted.map(({ cluster, key }) => jobId(cluster, key));
      const found = await jobs.find({ _id: { $in: ids } }).toArray();
      return await finished.over(found.map(fromDocument));
    },

    async insertMany(given): Promise<boolean[]> {
      const inserted = given.map(() => true);
      if (given.length === 0) return inserted;
      const documents = given.map((job) => toDocument(job));
      for (const index of await insertDocuments(db, jobs, documents)) inserted[index] = false;
      return inserted;
    },

    async insertLines(lines): Promise<boolean[]> {
      const inserted = lines.map(() => true);
      for (const index of await insertLineDocuments(db, jobs, lines)) inserted[index] = false;
      return inserted;
    },

    async replaceMany(changes): Promise<boolean[]> {
      const replaced: boolean[] = [];
      for (const part of ofDifferentJobs(changes)) replaced.push(...(await replacePart(jobs, part)));
      return replaced;
    },

    async finish(ended, nowMs): Promise<void> {
      const oneShots = ended.filter(({ oneShotOf }) => oneShotOf !== undefined);
      const inBlocks = oneShots.length >= BLOCKS_FROM;
      if (inBlocks) await finished.write(oneShots, nowMs);
      const others = inBlocks ? ended.filter(({ oneShotOf }) => oneShotOf === undefined) : ended;
      if (others.length === 0) return;
      const operations = ofOneVersion(others).map(({ shard, version, numbers }) => {
        const filter = { shard, number: { $in: numbers }, version, state: 'enabled' as const, deleted: false };
        return { updateMany: { filter, update: finishedAt(nowMs) } };
      });
      await jobs.bulkWrite(operations, { ordered: false });
    },

    fold: () => finished.fold(),

    fail: (shard, failed, nowMs) =>
      update(
        jobs,
        failed.map(({ number, version, reason }) => ({
          filter: { shard, number, version, deleted: false },
          update: { $set: { state: 'error', stateReason: reason, updatedMs: nowMs } },
        })),
      ),

    async list(query): Promise<{ jobs: Job[]; next: string | null }> {
      if (query.state === 'enabled') return await listEnabled(jobs, query, (found) => finished.over(found));
      const found = await page(listFilter(query), query.limit + 1);
      const listed = found.slice(0, query.limit);
      const next = found.length > query.limit ? (listed.at(-1)?.key ?? null) : null;
      return { jobs: listed, next };
    },

    async byShard(shard, afterNumber, limit): Promise<Job[]> {
      const filter = { shard, number: { $gt: afterNumber }, deleted: false };
      const found = await jobs.find(filter).sort({ number: 1 }).limit(limit).toArray();
      return await finished.over(found.map(fromDocument));
    },

    async versions(shard, afterNumber, limit): Promise<JobVersion[]> {
      const filter = { shard, number: { $gt: afterNumber }, deleted: false };
      const projection = { _id: 0, number: 1, version: 1, state: 1, updatedMs: 1 };
      const found = await jobs.find(filter).project<JobVersion>(projection).sort({ number: 1 }).limit(limit).toArray();
      const blocks = await finished.of([shard]);
      for (const job of found) {
        const atMs = job.state === 'enabled' ? blocks.get(nameOf({ shard, ...job })) : undefined;
        if (atMs !== undefined) Object.assign(job, { state: 'finished', updatedMs: atMs });
      }
      return found;
    },

    async using(what, after, limit): Promise<Job[]> {
      const behind = after === null ? {} : { _id: { $gt: jobId(after.cluster, after.key) } };
      const pages = await Promise.all(
        useFilters(what).map((filter) => page({ ...filter, ...behind, deleted: false }, limit)),
      );
      if (pages.length === 1) return pages[0]!;
      return pages.flat().sort(byKey).slice(0, limit);
    },

    async counts(cluster): Promise<Record<JobState, number>> {
      // Both at one moment: a fold moves jobs from one to the other.
      return await db.client.withSession({ snapshot: true }, async (session) => {
        const counts = await countStates(jobs, cluster, session);
        const moved = Math.min(await finished.count(cluster, session), counts.enabled);
        return { ...counts, enabled: counts.enabled - moved, finished: counts.finished + moved };
      });
    },

    async sweep(partition, offset, limit): Promise<number> {
      const old = { 'position.partition': partition, 'position.offset': { $lt: offset }, deleted: true };
      const found = await jobs.find(old).project<{ _id: string }>({ _id: 1 }).limit(limit).toArray();
      if (found.length === 0) return 0;
      // The key may be in use again since it was read: the condition is asked once more with the deletion.
      const { deletedCount } = await jobs.deleteMany({ _id: { $in: found.map(({ _id }) => _id) }, ...old });
      return deletedCount;
    },
  };
}

/** Jobs of the same shard and version: one operation for many costs mongod 24 us of CPU per job, one for each 60 (m). */
function ofOneVersion(ended: readonly { shard: number; number: number; version: number }[]) {
  const groups = new Map<string, { shard: number; version: number; numbers: number[] }>();
  for (const { shard, number, version } of ended) {
    const name = `${shard} ${version}`;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, { shard, version, numbers: [number] });
    else group.numbers.push(number);
  }
  return [...groups.values()];
}

type Replacement = Parameters<JobStore['replaceMany']>[0][number];

/** Cuts changes so that no job is twice in a part; the order stays. */
function* ofDifferentJobs(changes: readonly Replacement[]): Generator<readonly Replacement[]> {
  const ids = new Set<string>();
  let start = 0;
  for (const [i, { job }] of changes.entries()) {
    const id = jobId(job.cluster, job.key);
    if (ids.has(id)) {
      yield changes.slice(start, i);
      ids.clear();
      start = i;
    }
    ids.add(id);
  }
  if (start < changes.length) yield changes.slice(start);
}

/**
 * One bulk write answers only how many matched. When not all did, the mark of this write tells those that it changed. A job
 * that somebody else replaced right afterwards reads as not replaced: its caller has to look again in either case.
 */
async function replacePart(jobs: Collection<JobDocument>, part: readonly Replacement[]): Promise<boolean[]> {
  const mark = new ObjectId();
  const operations = part.map(({ job, expected }) => {
    const replacement = toDocument(job, mark);
    const filter = { _id: replacement._id, version: expected.version, 'position.offset': expected.offset };
    return { replaceOne: { filter, replacement } };
  });
  const { matchedCount } = await jobs.bulkWrite(operations, { ordered: false });
  if (matchedCount === part.length) return part.map(() => true);
  if (matchedCount === 0) return part.map(() => false);
  const ids = operations.map(({ replaceOne }) => replaceOne.replacement._id);
  const found = await jobs
    .find({ _id: { $in: ids }, mark })
    .project<{ _id: string }>({ _id: 1 })
    .toArray();
  const changed = new Set(found.map(({ _id }) => _id));
  return ids.map((id) => changed.has(id));
}

type Update = { filter: Filter<JobDocument>; update: { $set: Partial<JobDocument> } };

async function update(jobs: Collection<JobDocument>, updates: Update[]): Promise<number> {
  if (updates.length === 0) return 0;
  const operations = updates.map((updateOne) => ({ updateOne }));
  const { matchedCount } = await jobs.bulkWrite(operations, { ordered: false });
  return matchedCount;
}

function listFilter(query: JobQuery): Filter<JobDocument> {
  const { cluster, state } = query;
  const _id = keysOf(query);
  return state === undefined ? { _id, deleted: false } : { cluster, deleted: false, state, _id };
}

function keysOf({ cluster, afterKey, prefix = '' }: JobQuery) {
  return {
    $gte: jobId(cluster, prefix),
    $lt: afterPrefix(jobId(cluster, prefix)),
    ...(afterKey === undefined ? {} : { $gt: jobId(cluster, afterKey) }),
  };
}

/**
 * The least text above all that begin with this one: its last character that has a next one is raised. The order of UTF-8
 * is that of code points. Example: `team ab` -> `team ac`; `team \u{10ffff}` -> `team!`, the end of the cluster's keys.
 */
function afterPrefix(prefix: string): string {
  const characters = [...prefix];
  for (;;) {
    const last = characters.pop()?.codePointAt(0);
    if (last === undefined) throw new RangeError('nothing is above all texts');
    if (last === 0x10ffff) continue;
    // Surrogates (D800 to DFFF) are no characters.
    return characters.join('') + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1);
  }
}

function useFilters(what: JobUse): Filter<JobDocument>[] {
  if ('moving' in what) return [{ 'move.cutMs': { $exists: true } }];
  if ('calendar' in what) return [{ calendars: what.calendar }];
  const filters: Filter<JobDocument>[] = [];
  for (let i = 0; i < what.zones.length; i += ZONES_PER_QUERY) {
    filters.push({ zone: { $in: what.zones.slice(i, i + ZONES_PER_QUERY) } });
  }
  return filters;
}

function byKey(a: Job, b: Job): number {
  return Buffer.compare(Buffer.from(jobId(a.cluster, a.key)), Buffer.from(jobId(b.cluster, b.key)));
}

/**
 * Enabled jobs are in no index of states, so they are looked for among all by key, a bounded number of which is looked at for a
 * page; it may be short, or empty, with more behind it.
 */
async function listEnabled(
  jobs: Collection<JobDocument>,
  query: JobQuery,
  over: (found: Job[]) => Promise<Job[]>,
): Promise<{ jobs: Job[]; next: string | null }> {
  const most = Math.max(LOOKED_AT, query.limit);
  const range = keysOf(query);
  const byKey = { _id: 1 } as const;
  const [last] = await jobs
    .find({ _id: range })
    .project<{ _id: string }>({ _id: 1 })
    .sort(byKey)
    .skip(most - 1)
    .limit(1)
    .toArray();
  const looked = last === undefined ? range : { ...range, $lte: last._id };
  const found = await jobs
    .find({ _id: looked, deleted: false, state: 'enabled' })
    .sort(byKey)
    .limit(query.limit + 1)
    .toArray();
  const listed = await over(found.slice(0, query.limit).map(fromDocument));
  const behind = found.length > query.limit ? listed.at(-1)!.key : (last?._id.slice(query.cluster.length + 1) ?? null);
  // Some may stand in a block as finished.
  return { jobs: listed.filter(({ state }) => state === 'enabled'), next: behind };
}

/** Enabled jobs are those that the index of the others does not have. No document is read. */
async function countStates(
  jobs: Collection<JobDocument>,
  cluster: string | undefined,
  session: ClientSession,
): Promise<Record<JobState, number>> {
  const counts: Record<JobState, number> = { enabled: 0, paused: 0, finished: 0, terminated: 0, error: 0 };
  // Every name is above the empty text: without a cluster this is the whole index.
  const keys = cluster === undefined ? { $gt: '' } : keysOf({ cluster, limit: 0 });
  const own = { cluster: cluster ?? { $gt: '' } };
  const at = { session, readConcern: 'snapshot' } as const;
  const count = async (filter: Filter<JobDocument>): Promise<number> => {
    const [found] = await jobs.aggregate<{ n: number }>([{ $match: filter }, { $count: 'n' }], at).toArray();
    return found?.n ?? 0;
  };
  const all = await count({ _id: keys });
  const deleted = await count({ ...own, deleted: true });
  const groups = jobs.aggregate<{ _id: JobState; n: number }>(
    [
      { $match: { ...own, deleted: false, state: { $in: OTHER_STATES } } },
      { $group: { _id: '$state', n: { $sum: 1 } } },
    ],
    at,
  );
  counts.enabled = all - deleted;
  for await (const { _id, n } of groups) {
    counts[_id] = n;
    counts.enabled -= n;
  }
  return counts;
}
