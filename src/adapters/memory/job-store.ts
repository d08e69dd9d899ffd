import type { Job, JobState } from '../../core/job.ts';
import { jobOfLine } from '../../core/lines.ts';
import type { JobStore, JobUse } from '../../ports/job-store.ts';

/** Order of the UTF-8 bytes, which is not that of JavaScript's UTF-16 units. */
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
const byPlace = (a: Job, b: Job): number => byBytes(a.cluster, b.cluster) || byBytes(a.key, b.key);

function uses(job: Job, what: JobUse): boolean {
  if ('moving' in what) return job.move !== undefined;
  if ('calendar' in what) return job.bounds.calendars?.includes(what.calendar) ?? false;
  const { schedule } = job;
  return schedule.kind === 'cron' && schedule.zone !== undefined && what.zones.includes(schedule.zone);
}

/** Jobs in memory, for tests and simulations: lists look at every job. Values are copied on their way in and out. */
export function memoryJobStore(): JobStore {
  const jobs = new Map<string, Job>();
  const at = (cluster: string, key: string): string => `${cluster}/${key}`;
  /** Name of the job at each place; a job that has left it is told by its own place. */
  const byNumber = new Map<string, string>();
  const stored = (job: Job): void => {
    jobs.set(at(job.cluster, job.key), structuredClone(job));
    byNumber.set(`${job.shard}/${job.number}`, at(job.cluster, job.key));
  };
  const insert = (job: Job): boolean => {
    if (jobs.has(at(job.cluster, job.key))) return false;
    stored(job);
    return true;
  };
  const living = (holds: (job: Job) => boolean): Job[] =>
    [...jobs.values()].filter((job) => job.deleted !== true && holds(job));
  const copies = (some: readonly Job[], limit: number): Job[] => structuredClone(some.slice(0, limit));

  function end(shard: number, number: number, version: number): Job | undefined {
    const job = jobs.get(byNumber.get(`${shard}/${number}`) ?? '');
    const stands = job?.shard === shard && job.number === number && job.version === version && job.deleted !== true;
    return stands ? job : undefined;
  }

  return {
    get: async (cluster, key) => structuredClone(jobs.get(at(cluster, key)) ?? null),
    async getMany(wanted) {
      const found = wanted.map(({ cluster, key }) => jobs.get(at(cluster, key)));
      return structuredClone(found.filter((job) => job !== undefined));
    },
    insertMany: async (some) => some.map(insert),
    insertLines: async (lines) => lines.map(jobOfLine).map(insert),
    async replaceMany(changes) {
      return changes.map(({ job, expected }) => {
        const now = jobs.get(at(job.cluster, job.key));
        if (now?.version !== expected.version || now.position.offset !== expected.offset) return false;
        stored(job);
        return true;
      });
    },
    async finish(some, nowMs) {
      const found = some.map(({ shard, number, version }) => end(shard, number, version));
      const enabled = found.filter((job) => job?.state === 'enabled');
      for (const job of enabled) Object.assign(job!, { state: 'finished', updatedMs: nowMs });
    },
    async fail(shard, some, nowMs) {
      let failed = 0;
      for (const { number, version, reason } of some) {
        const job = end(shard, number, version);
        if (job === undefined) continue;
        Object.assign(job, { state: 'error', stateReason: reason, updatedMs: nowMs });
        failed += 1;
      }
      return failed;
    },
    fold: async () => 0,
    async list({ cluster, afterKey, prefix = '', state, limit }) {
      const found = living(
        (job) =>
          job.cluster === cluster &&
          job.key.startsWith(prefix) &&
          (state === undefined || job.state === state) &&
          (afterKey === undefined || byBytes(job.key, afterKey) > 0),
      ).sort(byPlace);
      const page = copies(found, limit);
      return { jobs: page, next: found.length > limit ? page.at(-1)!.key : null };
    },
    async byShard(shard, afterNumber, limit) {
      const found = living((job) => job.shard === shard && job.number > afterNumber);
      return copies(
        found.sort((a, b) => a.number - b.number),
        limit,
      );
    },
    async versions(shard, afterNumber, limit) {
      const found = living((job) => job.shard === shard && job.number > afterNumber).sort(
        (a, b) => a.number - b.number,
      );
      return found.slice(0, limit).map(({ number, version, state, updatedMs }) => {
        return { number, version, state, updatedMs };
      });
    },
    async using(what, after, limit) {
      const behind = (job: Job): boolean =>
        after === null || (byBytes(job.cluster, after.cluster) || byBytes(job.key, after.key)) > 0;
      return copies(living((job) => uses(job, what) && behind(job)).sort(byPlace), limit);
    },
    async counts(cluster) {
      const counts: Record<JobState, number> = { enabled: 0, paused: 0, finished: 0, terminated: 0, error: 0 };
      for (const job of living((one) => cluster === undefined || one.cluster === cluster)) counts[job.state] += 1;
      return counts;
    },
    async sweep(partition, offset, limit) {
      let swept = 0;
      for (const [place, { deleted, position }] of jobs) {
        if (swept === limit) break;
        if (deleted !== true || position.partition !== partition || position.offset >= offset) continue;
        jobs.delete(place);
        swept += 1;
      }
      return swept;
    },
  };
}
