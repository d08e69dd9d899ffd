import { LIMITS } from '../../core/limits.ts';
import type { Clock } from '../../ports/clock.ts';
import type { ExpectedJob, RestoredJob } from '../../ports/rebuild-store.ts';
import type {
  AddResult,
  Claimed,
  DueMember,
  MemberScore,
  ScanRequest,
  ScanResult,
  Stale,
  TriggerChange,
  TriggerStore,
  WriteBackResult,
} from '../../ports/trigger-store.ts';
import type { Database } from './database.ts';

interface MemberRow {
  version: number;
  score: number | null;
  reaches: number;
  removed: number;
}

interface ShardRow {
  epoch: number;
  horizon_ms: number;
  /** Number of the last rebuild, and whether its end has come (1). */
  build: number;
  whole: number;
}

const NO_SHARD: ShardRow = { epoch: 0, horizon_ms: 0, build: 0, whole: 0 };

const MEMBER_VERSIONS = 2 ** LIMITS.memberVersionBits;
const TABLES = ['trigger_members', 'trigger_records', 'trigger_shards'];

/** The trigger store in tables: members by (shard, number), found in order of their scores by an index. */
export class SqliteTriggerStore implements TriggerStore {
  readonly #db: Database;
  readonly #clock: Clock;

  constructor(db: Database, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  #shard(shard: number): ShardRow {
    const sql = 'SELECT epoch, horizon_ms, build, whole FROM trigger_shards WHERE shard = ?';
    return this.#db.get<ShardRow>(sql, shard) ?? NO_SHARD;
  }

  #setShard(shard: number, { epoch, horizon_ms, build, whole }: ShardRow): void {
    const sql = 'INSERT OR REPLACE INTO trigger_shards (shard, epoch, horizon_ms, build, whole) VALUES (?, ?, ?, ?, ?)';
    this.#db.run(sql, shard, epoch, horizon_ms, build, whole);
  }

  #member(shard: number, number: number): MemberRow | undefined {
    const sql = 'SELECT version, score, reaches, removed FROM trigger_members WHERE shard = ? AND number = ?';
    return this.#db.get<MemberRow>(sql, shard, number);
  }

  async add(shard: number, changes: readonly TriggerChange[]): Promise<AddResult[]> {
    return this.#db.write(() => {
      const state = this.#shard(shard);
      const nowMs = this.#clock.wallMs();
      return changes.map((change) => this.#addOne(shard, change, state, nowMs));
    });
  }

  async restore(shard: number, epoch: number, changes: readonly RestoredJob[]): Promise<AddResult[] | Stale> {
    return this.#db.write(() => {
      const state = this.#shard(shard);
      if (epoch < state.epoch) return { status: 'stale', epoch: state.epoch };
      const nowMs = this.#clock.wallMs();
      return changes.map((change) => this.#addOne(shard, change, state, nowMs, true));
    });
  }

  #addOne(shard: number, change: TriggerChange, state: ShardRow, nowMs: number, restores = false): AddResult {
    const { number, version, score, cutMs = 0, record } = change;
    const stored = this.#member(shard, number);
    if (stored !== undefined && stored.version > version) return { outcome: 'older', reachesOwner: false };
    const lacks = restores && (score === null) !== (stored?.score === null);
    if (stored?.version === version && !lacks) return { outcome: 'same', reachesOwner: stored.reaches === 1 };
    const within = (one: number | null | undefined, toMs: number): boolean => typeof one === 'number' && one <= toMs;
    const { horizon_ms: h, whole } = state;
    const reachesOwner = within(score, h) || within(stored?.score, Math.max(h, cutMs)) || whole === 0;
    this.#db.run(
      `INSERT OR REPLACE INTO trigger_members (shard, number, version, score, reaches, removed, changed_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      ...[shard, number, version, score, reachesOwner || restores ? 1 : 0, record === null ? 1 : 0, nowMs],
    );
    if (record !== null) {
      const sql = 'INSERT OR REPLACE INTO trigger_records (shard, number, record) VALUES (?, ?, ?)';
      this.#db.run(sql, shard, number, record);
    } else if (stored?.removed === 0) {
      this.#db.run('DELETE FROM trigger_records WHERE shard = ? AND number = ?', shard, number);
    }
    return { outcome: 'applied', reachesOwner };
  }

  async claim(shard: number, epoch: number): Promise<Claimed | Stale> {
    return this.#db.write(() => {
      const stored = this.#shard(shard);
      if (epoch < stored.epoch) return { status: 'stale', epoch: stored.epoch };
      this.#setShard(shard, { ...stored, epoch });
      return {
        status: 'ok',
        horizonMs: stored.horizon_ms,
        formerEpoch: stored.epoch,
        whole: stored.whole === 1,
        // The file holds progress too: the two go back together.
        lineage: '',
      };
    });
  }

  async reset(shard: number, epoch: number, build: number): Promise<{ status: 'ok' } | Stale> {
    return this.#db.write(() => {
      const stored = this.#shard(shard);
      if (epoch < stored.epoch) return { status: 'stale', epoch: stored.epoch };
      this.#empty(shard);
      this.#setShard(shard, { ...NO_SHARD, epoch, build });
      return { status: 'ok' };
    });
  }

  async compare(shard: number, jobs: readonly ExpectedJob[]): Promise<number[]> {
    return [...jobs.keys()].filter((i) => {
      const { number, version, member } = jobs[i]!;
      const stored = this.#member(shard, number);
      if (stored === undefined || stored.version < version) return true;
      return stored.version === version && (stored.score !== null) !== member;
    });
  }

  /** It is the file of everything else too: what it holds cannot be older than what it answered. */
  connections(): number {
    return 1;
  }

  async scan(shard: number, request: ScanRequest): Promise<ScanResult | Stale> {
    const { epoch, expectedHorizonMs, fromMs, horizonMs, build } = request;
    return this.#db.write(() => {
      const stored = this.#shard(shard);
      if (epoch < stored.epoch) return { status: 'stale', epoch: stored.epoch };
      if (build === undefined ? stored.whole === 0 : build !== stored.build) return { status: 'not-whole' };
      if (stored.horizon_ms !== expectedHorizonMs) return { status: 'horizon-moved', horizonMs: stored.horizon_ms };
      this.#setShard(shard, { ...stored, horizon_ms: horizonMs, whole: 1 });
      const due = this.#db.all<DueMember>(
        `SELECT m.number, m.version % ${MEMBER_VERSIONS} AS memberVersion, m.score, r.record
         FROM trigger_members AS m JOIN trigger_records AS r USING (shard, number)
         WHERE m.shard = ? AND m.score > ? AND m.score <= ? ORDER BY m.score`,
        shard,
        fromMs,
        horizonMs,
      );
      return { status: 'ok', due: due.map((row) => ({ ...row })) };
    });
  }

  async writeBack(shard: number, epoch: number, scores: readonly MemberScore[]): Promise<WriteBackResult | Stale> {
    const sql = `UPDATE trigger_members SET score = ?
                 WHERE shard = ? AND number = ? AND version = ? AND score IS NOT NULL`;
    return this.#db.write(() => {
      const stored = this.#shard(shard);
      if (epoch < stored.epoch) return { status: 'stale', epoch: stored.epoch };
      const within: number[] = [];
      const missing: number[] = [];
      for (const [i, { number, version, score }] of scores.entries()) {
        if (this.#db.run(sql, score, shard, number, version) === 0) missing.push(i);
        else if (score !== 0 && score <= stored.horizon_ms) within.push(i);
      }
      return { status: 'ok', within, missing };
    });
  }

  async finished(shard: number, limit: number): Promise<{ number: number; version: number }[]> {
    const sql = 'SELECT number, version FROM trigger_members WHERE shard = ? AND score = 0 LIMIT ?';
    return this.#db.all<{ number: number; version: number }>(sql, shard, limit).map((row) => ({ ...row }));
  }

  async removeFinished(shard: number, members: readonly { number: number; version: number }[]): Promise<void> {
    const sql = 'DELETE FROM trigger_members WHERE shard = ? AND number = ? AND version = ? AND score IS NOT NULL';
    this.#db.write(() => {
      for (const { number, version } of members) {
        if (this.#db.run(sql, shard, number, version) === 0) continue;
        this.#db.run('DELETE FROM trigger_records WHERE shard = ? AND number = ?', shard, number);
      }
    });
  }

  async count(shard: number): Promise<{ members: number; finished: number }> {
    const sql = `SELECT count(*) AS members, count(*) FILTER (WHERE score = 0) AS finished
                 FROM trigger_members WHERE shard = ? AND score IS NOT NULL`;
    return { ...this.#db.get<{ members: number; finished: number }>(sql, shard)! };
  }

  async sweep(shard: number, beforeMs: number, limit: number): Promise<number> {
    const sql = `DELETE FROM trigger_members WHERE shard = ?1 AND number IN (SELECT number FROM trigger_members
                 WHERE shard = ?1 AND removed = 1 AND changed_ms < ?2 LIMIT ?3)`;
    return this.#db.run(sql, shard, beforeMs, limit);
  }

  async drop(shard: number): Promise<void> {
    this.#db.write(() => this.#empty(shard));
  }

  #empty(shard: number): void {
    for (const table of TABLES) this.#db.run(`DELETE FROM ${table} WHERE shard = ?`, shard);
  }

  async timeMs(): Promise<number> {
    return this.#clock.wallMs();
  }

  async close(): Promise<void> {}
}
