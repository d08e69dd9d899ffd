import type { Delivery } from '../../core/job.ts';
import type { PlaceBlock, Shard, ShardState, ShardStore } from '../../ports/shard-store.ts';
import type { Database } from './database.ts';

interface ShardRow {
  id: number;
  delivery: Delivery;
  slot: number;
  state: ShardState;
  jobs: number;
  next_number: number;
  triggers_per_second: number;
  saturated: number;
}

function shardOf({ next_number, triggers_per_second, saturated, ...rest }: ShardRow): Shard {
  return { ...rest, nextNumber: next_number, triggersPerSecond: triggers_per_second, saturated: saturated === 1 };
}

export class SqliteShardStore implements ShardStore {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async shards(): Promise<Shard[]> {
    return this.#db.all<ShardRow>('SELECT * FROM shards ORDER BY id').map(shardOf);
  }

  async create(shards: readonly Shard[]): Promise<number> {
    const sql = `INSERT OR IGNORE INTO shards (id, delivery, slot, state, jobs, next_number, triggers_per_second, saturated)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
    return this.#db.write(() =>
      shards.reduce((sum, shard) => {
        const { id, delivery, slot, state, jobs, nextNumber, triggersPerSecond, saturated } = shard;
        return (
          sum + this.#db.run(sql, id, delivery, slot, state, jobs, nextNumber, triggersPerSecond, saturated ? 1 : 0)
        );
      }, 0),
    );
  }

  async takePlaces(delivery: Delivery, wanted: number, capacity: number): Promise<PlaceBlock | null> {
    return this.#db.write(() => {
      const row = this.#db.get<ShardRow>(
        `SELECT * FROM shards WHERE delivery = ? AND state = 'open' AND saturated = 0 AND jobs < ? ORDER BY jobs LIMIT 1`,
        delivery,
        capacity,
      );
      if (row === undefined) return null;
      const count = Math.min(wanted, capacity - row.jobs);
      const sql = 'UPDATE shards SET jobs = jobs + ?, next_number = next_number + ? WHERE id = ?';
      this.#db.run(sql, count, count, row.id);
      return { shard: row.id, slot: row.slot, firstNumber: row.next_number, count };
    });
  }

  async addJobs(changes: readonly { shard: number; jobs: number }[]): Promise<void> {
    this.#db.write(() => {
      for (const { shard, jobs } of changes)
        this.#db.run('UPDATE shards SET jobs = jobs + ? WHERE id = ?', jobs, shard);
    });
  }

  async setState(shard: number, from: ShardState, to: ShardState): Promise<boolean> {
    return this.#db.run('UPDATE shards SET state = ? WHERE id = ? AND state = ?', to, shard, from) === 1;
  }

  async setLoad(loads: Parameters<ShardStore['setLoad']>[0]): Promise<void> {
    const sql = 'UPDATE shards SET triggers_per_second = ?, saturated = ? WHERE id = ?';
    this.#db.write(() => {
      for (const { shard, triggersPerSecond, saturated } of loads) {
        this.#db.run(sql, triggersPerSecond, saturated ? 1 : 0, shard);
      }
    });
  }
}
