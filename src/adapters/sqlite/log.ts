import { carillonError } from '../../core/errors.ts';
import type { BusMessage, BusRecord, TopicMessages, TopicSpec } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import { admit } from '../local/admission.ts';
import type { Log, LogEntry, Offsets, WriteResult } from '../local/log.ts';
import { recordsOf } from '../local/watchers.ts';
import type { Changes } from './changes.ts';
import type { Database } from './database.ts';
import { SqliteGroups } from './groups.ts';

/** One read answers at most this many bytes of values and then some of one record: bounds the memory of a reader. */
const READ_BYTES = 8 * 1024 * 1024;
/** What a record takes beside key, value and headers, in bytes: offsets, time, lengths. */
export const RECORD_OVERHEAD_BYTES = 24;

interface TopicRow {
  id: number;
  partitions: number;
  compacted: number;
}

interface MessageRow {
  offset: number;
  key: string | null;
  value: Uint8Array | null;
  headers: string | null;
  at: number;
}

/** Ends of the partitions that a transaction touches: read once, written once. */
interface Tail {
  topic: number;
  partition: number;
  next: number;
  bytes: number;
}

const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({});

/** The log of the bus in tables: one row per record, clustered by (topic, partition, offset). */
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

  #topic(name: string): TopicRow | undefined {
    return this.#db.get<TopicRow>('SELECT id, partitions, compacted FROM topics WHERE name = ?', name);
  }

  ensureTopics(topics: readonly TopicSpec[]): void {
    this.#db.write(() => {
      for (const spec of topics) {
        const there = this.#topic(spec.name);
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
    const { id } = this.#topic(name)!;
    for (let p = 0; p < partitions; p += 1) {
      this.#db.run('INSERT INTO partitions (topic, partition, first, next, bytes) VALUES (?, ?, 0, 0, 0)', id, p);
    }
  }

  deleteTopics(names: readonly string[]): void {
    this.#db.write(() => {
      for (const name of names) {
        const id = this.#topic(name)?.id;
        if (id === undefined) continue;
        for (const table of ['messages', 'compacted', 'group_offsets', 'partitions']) {
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

  write(entries: readonly LogEntry[]): WriteResult[] {
    const touched = new Set<string>();
    const results = this.#db.write(() => {
      const tails = new Map<string, Tail>();
      const written = entries.map((entry) => this.#writeEntry(entry, tails, touched));
      for (const { topic, partition, next, bytes } of tails.values()) {
        const sql = 'UPDATE partitions SET next = ?, bytes = bytes + ? WHERE topic = ? AND partition = ?';
        this.#db.run(sql, next, bytes, topic, partition);
      }
      return written;
    });
    this.#changes.tell([...touched]);
    return results;
  }

  #writeEntry({ lane, batch, offsets }: LogEntry, tails: Map<string, Tail>, touched: Set<string>): WriteResult {
    if (lane !== undefined) {
      const stored = this.#db.get<{ epoch: number }>('SELECT epoch FROM lanes WHERE id = ?', lane.id);
      if (stored?.epoch !== lane.epoch) return { fenced: true };
    }
    const { good, failures } = admit(batch, (topic) => this.#topic(topic)?.partitions ?? 0);
    if (lane !== undefined && failures.length > 0) return { fenced: false, failures };
    for (const one of good) {
      if (one.messages.length > 0) this.#append(one, tails, touched);
    }
    this.groups.commit(offsets);
    return { fenced: false, failures };
  }

  #append({ topic, messages }: TopicMessages, tails: Map<string, Tail>, touched: Set<string>): void {
    const { id, compacted } = this.#topic(topic)!;
    const insert = this.#db.statement(
      'INSERT INTO messages (topic, partition, offset, key, value, headers, at) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    const at = this.#clock.wallMs();
    let tail: Tail | undefined;
    for (const message of messages) {
      // Batches are mostly sorted by partition, so the look-up is rare.
      if (tail?.partition !== message.partition) {
        tail = this.#tail(id, message.partition, tails);
        touched.add(recordsOf(topic, message.partition));
      }
      if (compacted === 1) this.#supersede(id, message, tail);
      const headers = headersText(message.headers);
      insert.run(id, message.partition, tail.next, message.key, message.value, headers, at);
      tail.next += 1;
      tail.bytes += RECORD_OVERHEAD_BYTES + (message.key?.length ?? 0) + (message.value?.length ?? 0);
      tail.bytes += headers?.length ?? 0;
    }
  }

  #tail(topic: number, partition: number, tails: Map<string, Tail>): Tail {
    const known = tails.get(`${topic}/${partition}`);
    if (known !== undefined) return known;
    const sql = 'SELECT next FROM partitions WHERE topic = ? AND partition = ?';
    const tail = { topic, partition, next: this.#db.get<{ next: number }>(sql, topic, partition)!.next, bytes: 0 };
    tails.set(`${topic}/${partition}`, tail);
    return tail;
  }

  /** A compacted topic keeps one record per key: the one before goes as the new one comes. */
  #supersede(topic: number, { partition, key }: BusMessage, tail: Tail): void {
    if (key === null) return;
    const sql = 'SELECT offset FROM compacted WHERE topic = ? AND partition = ? AND key = ?';
    const former = this.#db.get<{ offset: number }>(sql, topic, partition, key);
    if (former !== undefined) {
      const removed = this.#db.get<{ bytes: number }>(
        `DELETE FROM messages WHERE topic = ? AND partition = ? AND offset = ?
         RETURNING coalesce(length(value), 0) + coalesce(length(headers), 0) AS bytes`,
        topic,
        partition,
        former.offset,
      );
      tail.bytes -= RECORD_OVERHEAD_BYTES + key.length + (removed?.bytes ?? 0);
    }
    this.#db.run(
      'INSERT OR REPLACE INTO compacted (topic, partition, key, offset) VALUES (?, ?, ?, ?)',
      topic,
      partition,
      key,
      tail.next,
    );
  }

  read(topic: string, partition: number, from: number, maxRecords: number): BusRecord[] {
    const select = this.#db.statement(
      `SELECT offset, key, value, headers, at FROM messages
       WHERE topic = (SELECT id FROM topics WHERE name = ?) AND partition = ? AND offset >= ? ORDER BY offset LIMIT ?`,
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

function headersText(headers: BusMessage['headers']): string | null {
  if (headers === undefined) return null;
  for (const _name in headers) return JSON.stringify(headers);
  return null;
}
