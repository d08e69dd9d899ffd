import type { GroupOffset } from '../../ports/bus.ts';
import type { GroupTable } from '../local/log.ts';
import type { Changes } from './changes.ts';
import type { Database } from './database.ts';

/** Groups in tables. A group that ever joined or committed is known, and holds back retention, until its topic is deleted. */
export class SqliteGroups implements GroupTable {
  readonly #db: Database;
  readonly #changes: Changes;

  constructor(db: Database, changes: Changes) {
    this.#db = db;
    this.#changes = changes;
  }

  committed(group: string, topic: string, partition: number): number | null {
    const row = this.#db.get<{ next: number | null }>(
      `SELECT next FROM group_offsets WHERE topic = (SELECT id FROM topics WHERE name = ?) AND consumers = ?
       AND partition = ?`,
      topic,
      group,
      partition,
    );
    return row?.next ?? null;
  }

  /** Inside a transaction. Offsets of a topic that does not exist are left out. */
  commit(offsets: readonly GroupOffset[]): void {
    const sql = `UPDATE group_offsets SET next = ? WHERE topic = (SELECT id FROM topics WHERE name = ?) AND consumers = ?
                 AND partition = ?`;
    for (const { group, topic, partition, next } of offsets) {
      if (this.#db.run(sql, next, topic, group, partition) === 1) continue;
      this.#know(group, topic);
      this.#db.run(sql, next, topic, group, partition);
    }
  }

  #know(group: string, topic: string): void {
    this.#db.run(
      `INSERT OR IGNORE INTO group_offsets (topic, consumers, partition)
       SELECT topic, ?, partition FROM partitions WHERE topic = (SELECT id FROM topics WHERE name = ?)`,
      group,
      topic,
    );
  }

  enter(group: string, topic: string, member: string): void {
    this.#db.write(() => {
      this.#know(group, topic);
      this.#db.run('INSERT INTO group_members (topic, consumers, member) VALUES (?, ?, ?)', topic, group, member);
    });
    this.#changes.tell([topic]);
  }

  leave(group: string, topic: string, member: string): void {
    const where = 'WHERE topic = ? AND consumers = ? AND member = ?';
    this.#db.write(() => {
      this.#db.run(`DELETE FROM group_members ${where}`, topic, group, member);
      this.#db.run(`DELETE FROM group_claims ${where}`, topic, group, member);
    });
    this.#changes.tell([topic]);
  }

  members(group: string, topic: string): string[] {
    const sql = 'SELECT member FROM group_members WHERE topic = ? AND consumers = ? ORDER BY place';
    return this.#db.all<{ member: string }>(sql, topic, group).map((row) => row.member);
  }

  claim(group: string, topic: string, partition: number, member: string): boolean {
    const sql = 'INSERT OR IGNORE INTO group_claims (topic, consumers, partition, member) VALUES (?, ?, ?, ?)';
    return this.#db.run(sql, topic, group, partition, member) === 1;
  }

  release(group: string, topic: string, partition: number, member: string): void {
    const sql = 'DELETE FROM group_claims WHERE topic = ? AND consumers = ? AND partition = ? AND member = ?';
    this.#db.run(sql, topic, group, partition, member);
    this.#changes.tell([topic]);
  }

  /** Members are those of one run of the process; whoever takes the folder begins without any. */
  static clear(db: Database): void {
    db.write(() => {
      db.run('DELETE FROM group_members');
      db.run('DELETE FROM group_claims');
    });
  }
}
