import { carillonError } from '../../core/errors.ts';
import { prepareHead } from '../../core/trigger-bytes.ts';
import type { BusRecord, TopicSpec, TriggerBatch } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log, LogEntry, Offsets, WriteResult } from '../local/log.ts';
import { BlockReader } from './block.ts';
import type { Changes } from './changes.ts';
import type { Database } from './database.ts';
import { SqliteGroups } from './groups.ts';
import { LogTransaction, topicRow } from './log-transaction.ts';
import { BlockTriggers } from './trigger-batch.ts';

/** One read answers at most this many bytes of values and then some of one record: bounds the memory of a reader. */
const READ_BYTES = 8 * 1024 * 1024;
interface MessageRow {
  offset: number;
  key: string | null;
  value: Uint8Array | null;
  headers: string | null;
  at: number;
}

interface BlockRow {
  last: number;
  records: number;
  at: number;
  data: Uint8Array;
}

const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({});

/**
 * The log of the bus in tables: a row per block of records (`block.ts`), in compacted topics per record, clustered by topic,
 * partition and offset.
 */
export class SqliteLog implements Log {
  readonly #db: Database;
  readonly #changes: Changes;
  readonly #clock: Clock;
  readonly groups: SqliteGroups;

  constructor(db: Database, changes: Changes, clock: Clock) {
    this.#db = db;
    this.#changes = changes;
    this.#clock = clock;
    this.groups = new SqliteGroups(db, changes);
  }

  ensureTopics(topics: readonly TopicSpec[]): void {
    this.#db.write(() => {
      for (const spec of topics) {
        const there = topicRow(this.#db, spec.name);
        if (there === undefined) this.#makeTopic(spec);
        else if (there.partitions < spec.partitions) {
          const detail = `topic ${spec.name} has ${there.partitions} partitions, ${spec.partitions} are needed`;
          throw carillonError('setup-refused', detail);
        }
      }
    });
  }

  #makeTopic({ name, partitions, compacted = false, retentionMs, retentionBytes }: TopicSpec): void {
    this.#db.run(
      'INSERT INTO topics (name, partitions, compacted, retention_ms, retention_bytes) VALUES (?, ?, ?, ?, ?)',
      name,
      partitions,
      compacted ? 1 : 0,
      retentionMs ?? null,
      retentionBytes ?? null,
    );
    const { id } = topicRow(this.#db, name)!;
    for (let p = 0; p < partitions; p += 1) {
      this.#db.run('INSERT INTO partitions (topic, partition, first, next, bytes) VALUES (?, ?, 0, 0, 0)', id, p);
    }
  }

  deleteTopics(names: readonly string[]): void {
    this.#db.write(() => {
      for (const name of names) {
        const id = topicRow(this.#db, name)?.id;
        if (id === undefined) continue;
        for (const table of ['blocks', 'messages', 'compacted', 'group_offsets', 'partitions']) {
          this.#db.run(`DELETE FROM ${table} WHERE topic = ?`, id);
        }
        this.#db.run('DELETE FROM topics WHERE id = ?', id);
      }
    });
    this.#changes.tell([...names]);
  }

  offsets(topic: string): Offsets[] | null {
    const sql = `SELECT first, next AS end FROM partitions WHERE topic = (SELECT id FROM topics WHERE name = ?)
                 ORDER BY partition`;
    const rows = this.#db.all<{ first: number; end: number }>(sql, topic);
    return rows.length === 0 ? null : rows.map(({ first, end }) => ({ first, end }));
  }

  openLane(id: string): number {
    const sql = `INSERT INTO lanes (id, epoch) VALUES (?, 1)
                 ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch`;
    return this.#db.write(() => this.#db.get<{ epoch: number }>(sql, id)!.epoch);
  }

  triggers(): TriggerBatch {
    return new BlockTriggers();
  }

  readonly prepare = prepareHead;

  write(entries: readonly LogEntry[]): WriteResult[] {
    try {
      const [results, touched] = this.#db.write(() => {
        const transaction = new LogTransaction(this.#db, this.#clock.wallMs());
        const written = entries.map((entry) => this.#writeEntry(entry, transaction));
        return [written, transaction.end()];
      });
      this.#changes.tell(touched);
      return results;
    } finally {
      for (const { batch } of entries) for (const one of batch) if (one instanceof BlockTriggers) one.release();
    }
  }

  #writeEntry({ lane, batch, offsets }: LogEntry, transaction: LogTransaction): WriteResult {
    if (lane !== undefined) {
      const stored = this.#db.get<{ epoch: number }>('SELECT epoch FROM lanes WHERE id = ?', lane.id);
      if (stored?.epoch !== lane.epoch) return { fenced: true };
    }
    const failures = transaction.append(batch, lane !== undefined);
    if (lane === undefined || failures.length === 0) this.groups.commit(offsets);
    return { fenced: false, failures };
  }

  read(topic: string, partition: number, from: number, maxRecords: number): BusRecord[] {
    const row = topicRow(this.#db, topic);
    if (row === undefined) return [];
    if (row.compacted === 1) return this.#readRecords(row.id, partition, from, maxRecords);
    const select = this.#db.statement(
      'SELECT last, records, at, data FROM blocks WHERE topic = ? AND partition = ? AND last >= ? ORDER BY last',
    );
    const all: BusRecord[] = [];
    let bytes = 0;
    for (const block of select.iterate(row.id, partition, from)) {
      const { last, records, at, data } = block as unknown as BlockRow;
      const first = last + 1 - records;
      const reader = new BlockReader(data);
      reader.skip(Math.max(0, from - first));
      for (let offset = Math.max(from, first); offset <= last; offset += 1) {
        const record = reader.next(partition, offset, at);
        all.push(record);
        bytes += record.value?.length ?? 0;
        if (all.length >= maxRecords || bytes >= READ_BYTES) return all;
      }
    }
    return all;
  }

  #readRecords(topic: number, partition: number, from: number, maxRecords: number): BusRecord[] {
    const select = this.#db.statement(
      `SELECT offset, key, value, headers, at FROM messages
       WHERE topic = ? AND partition = ? AND offset >= ? ORDER BY offset LIMIT ?`,
    );
    const records: BusRecord[] = [];
    let bytes = 0;
    for (const row of select.iterate(topic, partition, from, maxRecords)) {
      const { offset, key, value, headers, at } = row as unknown as MessageRow;
      const parsed = headers === null ? NO_HEADERS : (JSON.parse(headers) as Record<string, string>);
      records.push({ partition, offset, key, value, headers: parsed, timestampMs: at });
      bytes += value?.length ?? 0;
      if (bytes >= READ_BYTES) break;
    }
    return records;
  }

  watch(names: readonly string[], changed: () => void): () => void {
    return this.#changes.watch(names, changed);
  }

  /** After the events of this turn of the loop, so that what they write shares one fsync. */
  soon(run: () => void): void {
    setImmediate(run);
  }

  close(): void {
    this.#changes.close();
  }
}
