import { LIMITS } from '../../core/limits.ts';
import type { Clock } from '../../ports/clock.ts';
import type {
  Operation,
  OperationCount,
  OperationCounts,
  OperationError,
  OperationStore,
} from '../../ports/operation-store.ts';
import type { Database } from './database.ts';

interface OperationRow extends OperationCounts {
  cluster: string;
  key: string;
  state: Operation['state'];
  started_ms: number;
  accepted_ms: number | null;
  lines: number;
  hash: string;
}

/** Errors and counted offsets stand in tables of their own: a count touches a few small rows, however many errors there are. */
export class SqliteOperationStore implements OperationStore {
  readonly #db: Database;
  readonly #clock: Clock;

  constructor(db: Database, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  #find(cluster: string, key: string): Operation | null {
    const row = this.#db.get<OperationRow>('SELECT * FROM operations WHERE cluster = ? AND key = ?', cluster, key);
    return row === undefined ? null : this.#operationOf(row);
  }

  #operationOf({ cluster, key, state, started_ms, accepted_ms, lines, hash, ...counts }: OperationRow): Operation {
    const errors = this.#db.all<{ doc: string }>(
      'SELECT doc FROM operation_errors WHERE cluster = ? AND key = ? ORDER BY place',
      cluster,
      key,
    );
    const counted = this.#db.all<{ partition: number; offset: number }>(
      'SELECT partition, offset FROM operation_counted WHERE cluster = ? AND key = ?',
      cluster,
      key,
    );
    return {
      cluster,
      key,
      state,
      startedMs: started_ms,
      acceptedMs: accepted_ms,
      lines,
      hash,
      counts,
      errors: errors.map((row) => JSON.parse(row.doc) as OperationError),
      counted: Object.fromEntries(counted.map((row) => [row.partition, row.offset])),
    };
  }

  async start(operation: Operation): Promise<{ operation: Operation; started: boolean }> {
    const { cluster, key, state, startedMs, acceptedMs, lines, hash, counts, errors, counted } = operation;
    return this.#db.write(() => {
      const { created, updated, unchanged, failed } = counts;
      const started = this.#db.run(
        'INSERT OR IGNORE INTO operations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
        ...[cluster, key, state, startedMs, acceptedMs, lines, hash, created, updated, unchanged, failed],
      );
      if (started === 1) {
        this.#addErrors(cluster, key, errors);
        for (const [partition, offset] of Object.entries(counted)) this.#setCounted(cluster, key, +partition, offset);
      }
      return { operation: this.#find(cluster, key)!, started: started === 1 };
    });
  }

  async get(cluster: string, key: string): Promise<Operation | null> {
    return this.#find(cluster, key);
  }

  async received(cluster: string, key: string, lines: number, hash: string): Promise<void> {
    const sql = `UPDATE operations SET lines = ?, hash = ?
                 WHERE cluster = ? AND key = ? AND state = 'receiving' AND lines < ?`;
    this.#db.run(sql, lines, hash, cluster, key, lines);
  }

  async accepted(cluster: string, key: string, lines: number, hash: string): Promise<void> {
    const sql = `UPDATE operations SET state = 'accepted', accepted_ms = ?, lines = ?, hash = ?
                 WHERE cluster = ? AND key = ? AND state = 'receiving'`;
    this.#db.run(sql, this.#clock.wallMs(), lines, hash, cluster, key);
  }

  async count({ cluster, key, partition, fromOffset, toOffset, counts, errors }: OperationCount): Promise<boolean> {
    const { created = 0, updated = 0, unchanged = 0, failed = 0 } = counts;
    return this.#db.write(() => {
      const where = 'WHERE cluster = ? AND key = ?';
      const counted = this.#db.get<{ offset: number }>(
        `SELECT offset FROM operation_counted ${where} AND partition = ?`,
        cluster,
        key,
        partition,
      );
      if ((counted?.offset ?? -1) !== fromOffset) return false;
      const sql = `UPDATE operations SET created = created + ?, updated = updated + ?, unchanged = unchanged + ?,
                   failed = failed + ? ${where}`;
      if (this.#db.run(sql, created, updated, unchanged, failed, cluster, key) === 0) return false;
      this.#setCounted(cluster, key, partition, toOffset);
      this.#addErrors(cluster, key, errors);
      return true;
    });
  }

  #setCounted(cluster: string, key: string, partition: number, offset: number): void {
    const sql = 'INSERT OR REPLACE INTO operation_counted (cluster, key, partition, offset) VALUES (?, ?, ?, ?)';
    this.#db.run(sql, cluster, key, partition, offset);
  }

  #addErrors(cluster: string, key: string, errors: readonly OperationError[]): void {
    if (errors.length === 0) return;
    const sql = 'SELECT count(*) AS kept FROM operation_errors WHERE cluster = ? AND key = ?';
    const { kept } = this.#db.get<{ kept: number }>(sql, cluster, key)!;
    for (const [i, error] of errors.slice(0, Math.max(0, LIMITS.operationErrors - kept)).entries()) {
      const insert = 'INSERT INTO operation_errors (cluster, key, place, doc) VALUES (?, ?, ?, ?)';
      this.#db.run(insert, cluster, key, kept + i, JSON.stringify(error));
    }
  }

  async list(cluster: string, limit: number): Promise<Operation[]> {
    const sql = 'SELECT * FROM operations WHERE cluster = ? ORDER BY started_ms DESC LIMIT ?';
    return this.#db.all<OperationRow>(sql, cluster, limit).map((row) => this.#operationOf(row));
  }

  async sweep(beforeMs: number, limit: number): Promise<number> {
    const sql = `SELECT cluster, key FROM operations WHERE state = 'accepted' AND accepted_ms < ?
                 AND created + updated + unchanged + failed >= lines LIMIT ?`;
    return this.#db.write(() => {
      const ended = this.#db.all<{ cluster: string; key: string }>(sql, beforeMs, limit);
      for (const { cluster, key } of ended) {
        for (const table of ['operation_errors', 'operation_counted', 'operations']) {
          this.#db.run(`DELETE FROM ${table} WHERE cluster = ? AND key = ?`, cluster, key);
        }
      }
      return ended.length;
    });
  }
}
