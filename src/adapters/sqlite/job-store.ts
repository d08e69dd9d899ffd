import type { Job, JobState } from '../../core/job.ts';
import { jobOfLine, type PlacedLine } from '../../core/lines.ts';
import type { JobQuery, JobStore, JobUse, JobVersion } from '../../ports/job-store.ts';
import type { Database, Value } from './database.ts';

const COLUMNS = 'doc, state, reason, updated_ms';

interface JobRow {
  doc: string;
  state: JobState;
  reason: string | null;
  updated_ms: number;
}

function jobOf({ doc, state, reason, updated_ms }: JobRow): Job {
  const job = { ...(JSON.parse(doc) as Job), state, updatedMs: updated_ms };
  return reason === null ? job : { ...job, stateReason: reason };
}

/** Values of a job's row, in the order of `INSERT`. */
function valuesOf(job: Job): Value[] {
  const { state, stateReason, updatedMs, ...rest } = job;
  const { schedule, position } = job;
  return [
    job.cluster,
    job.key,
    job.shard,
    job.number,
    job.version,
    job.deleted === true ? 1 : 0,
    state,
    stateReason ?? null,
    updatedMs,
    position.partition,
    position.offset,
    schedule.kind === 'cron' ? (schedule.zone ?? null) : null,
    JSON.stringify(rest),
  ];
}

const INSERT = `INSERT INTO jobs (cluster, key, shard, number, version, deleted, state, reason, updated_ms, partition, offset,
  zone, doc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (cluster, key) DO NOTHING`;
const REPLACE = `UPDATE jobs SET cluster = ?, key = ?, shard = ?, number = ?, version = ?, deleted = ?, state = ?, reason = ?,
  updated_ms = ?, partition = ?, offset = ?, zone = ?, doc = ?
  WHERE cluster = ? AND key = ? AND version = ? AND offset = ?`;

/**
 * The least text that is greater than every text with this prefix, in the order of UTF-8 bytes; null: there is none.
 * Example: `ab` -> `ac`; a last character that is the greatest of all counts up the one before it.
 */
function afterPrefix(prefix: string): string | null {
  const points = [...prefix].map((character) => character.codePointAt(0)!);
  while (points.at(-1) === 0x10ffff) points.pop();
  const last = points.pop();
  if (last === undefined) return null;
  // Surrogates are no characters: U+D7FF is followed by U+E000.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}

function listQuery({ cluster, afterKey, prefix, state, limit }: JobQuery): { sql: string; values: Value[] } {
  const where = ['cluster = ?', 'deleted = 0'];
  const values: Value[] = [cluster];
  const also = (condition: string, value: Value | null | undefined): void => {
    if (value === undefined || value === null) return;
    where.push(condition);
    values.push(value);
  };
  also('key > ?', afterKey);
  also('key >= ?', prefix);
  also('key < ?', afterPrefix(prefix ?? ''));
  also('state = ?', state);
  values.push(limit + 1);
  return { sql: `SELECT ${COLUMNS}, key FROM jobs WHERE ${where.join(' AND ')} ORDER BY key LIMIT ?`, values };
}

export class SqliteJobStore implements JobStore {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  #find(cluster: string, key: string): Job | null {
    const row = this.#db.get<JobRow>(`SELECT ${COLUMNS} FROM jobs WHERE cluster = ? AND key = ?`, cluster, key);
    return row === undefined ? null : jobOf(row);
  }

  async get(cluster: string, key: string): Promise<Job | null> {
    return this.#find(cluster, key);
  }

  async getMany(jobs: readonly { cluster: string; key: string }[]): Promise<Job[]> {
    return jobs.map(({ cluster, key }) => this.#find(cluster, key)).filter((job) => job !== null);
  }

  async insertMany(jobs: readonly Job[]): Promise<boolean[]> {
    return this.#db.write(() =>
      jobs.map((job) => {
        if (this.#db.run(INSERT, ...valuesOf(job)) === 0) return false;
        this.#setCalendars(job);
        return true;
      }),
    );
  }

  insertLines(lines: readonly PlacedLine[]): Promise<boolean[]> {
    return this.insertMany(lines.map(jobOfLine));
  }

  async replaceMany(changes: Parameters<JobStore['replaceMany']>[0]): Promise<boolean[]> {
    return this.#db.write(() =>
      changes.map(({ job, expected }) => {
        const { cluster, key } = job;
        const at = [cluster, key, expected.version, expected.offset];
        if (this.#db.run(REPLACE, ...valuesOf(job), ...at) === 0) return false;
        this.#db.run('DELETE FROM job_calendars WHERE cluster = ? AND key = ?', cluster, key);
        this.#setCalendars(job);
        return true;
      }),
    );
  }

  #setCalendars({ cluster, key, bounds, deleted }: Job): void {
    if (deleted === true) return;
    for (const calendar of bounds.calendars ?? []) {
      const sql = 'INSERT OR IGNORE INTO job_calendars (calendar, cluster, key) VALUES (?, ?, ?)';
      this.#db.run(sql, calendar, cluster, key);
    }
  }

  async finish(jobs: Parameters<JobStore['finish']>[0], nowMs: number): Promise<void> {
    const sql = `UPDATE jobs SET state = 'finished', updated_ms = ?
                 WHERE shard = ? AND number = ? AND version = ? AND deleted = 0 AND state = 'enabled'`;
    this.#db.write(() => {
      for (const { shard, number, version } of jobs) this.#db.run(sql, nowMs, shard, number, version);
    });
  }

  /** A job is marked at once here, as cheaply as a block would be written. */
  async fold(): Promise<number> {
    return 0;
  }

  async fail(
    shard: number,
    jobs: readonly { number: number; version: number; reason: string }[],
    nowMs: number,
  ): Promise<number> {
    const sql = `UPDATE jobs SET state = 'error', reason = ?, updated_ms = ?
                 WHERE shard = ? AND number = ? AND version = ? AND deleted = 0`;
    return this.#db.write(() =>
      jobs.reduce((sum, one) => sum + this.#db.run(sql, one.reason, nowMs, shard, one.number, one.version), 0),
    );
  }

  async list(query: JobQuery): Promise<{ jobs: Job[]; next: string | null }> {
    const { sql, values } = listQuery(query);
    const rows = this.#db.all<JobRow & { key: string }>(sql, ...values);
    const page = rows.slice(0, query.limit);
    return { jobs: page.map(jobOf), next: rows.length > query.limit ? page.at(-1)!.key : null };
  }

  async byShard(shard: number, afterNumber: number, limit: number): Promise<Job[]> {
    const sql = `SELECT ${COLUMNS} FROM jobs WHERE shard = ? AND number > ? AND deleted = 0 ORDER BY number LIMIT ?`;
    return this.#db.all<JobRow>(sql, shard, afterNumber, limit).map(jobOf);
  }

  async versions(shard: number, afterNumber: number, limit: number): Promise<JobVersion[]> {
    const sql = `SELECT number, version, state, updated_ms AS updatedMs FROM jobs
                 WHERE shard = ? AND number > ? AND deleted = 0 ORDER BY number LIMIT ?`;
    return this.#db.all<JobVersion>(sql, shard, afterNumber, limit).map((row) => ({ ...row }));
  }

  async using(what: JobUse, after: { cluster: string; key: string } | null, limit: number): Promise<Job[]> {
    // Nothing is before the empty texts; a row is behind the last one when its (cluster, key) is greater.
    const { cluster, key } = after ?? { cluster: '', key: '' };
    const paging = '(cluster, key) > (?, ?) ORDER BY cluster, key LIMIT ?';
    if ('moving' in what) {
      const sql = `SELECT ${COLUMNS} FROM jobs WHERE deleted = 0 AND doc ->> '$.move' IS NOT NULL AND ${paging}`;
      return this.#db.all<JobRow>(sql, cluster, key, limit).map(jobOf);
    }
    if ('calendar' in what) {
      const sql = `SELECT ${COLUMNS} FROM job_calendars JOIN jobs USING (cluster, key) WHERE calendar = ? AND ${paging}`;
      return this.#db.all<JobRow>(sql, what.calendar, cluster, key, limit).map(jobOf);
    }
    const sql = `SELECT ${COLUMNS} FROM jobs WHERE deleted = 0 AND zone IN (SELECT value FROM json_each(?)) AND ${paging}`;
    return this.#db.all<JobRow>(sql, JSON.stringify(what.zones), cluster, key, limit).map(jobOf);
  }

  async counts(cluster?: string): Promise<Record<JobState, number>> {
    const counts: Record<JobState, number> = { enabled: 0, paused: 0, finished: 0, terminated: 0, error: 0 };
    const where = cluster === undefined ? 'deleted = 0' : 'deleted = 0 AND cluster = ?';
    const sql = `SELECT state, count(*) AS jobs FROM jobs WHERE ${where} GROUP BY state`;
    const values = cluster === undefined ? [] : [cluster];
    for (const row of this.#db.all<{ state: JobState; jobs: number }>(sql, ...values)) counts[row.state] = row.jobs;
    return counts;
  }

  async sweep(partition: number, offset: number, limit: number): Promise<number> {
    const sql = `DELETE FROM jobs WHERE rowid IN
                 (SELECT rowid FROM jobs WHERE deleted = 1 AND partition = ? AND offset < ? LIMIT ?)`;
    return this.#db.run(sql, partition, offset, limit);
  }
}
