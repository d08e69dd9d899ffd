import type { Telemetry } from '../../ports/telemetry.ts';
import { BlockReader } from './block.ts';
import type { Database } from './database.ts';
import { ROW_OVERHEAD_BYTES } from './log-transaction.ts';

/** Bytes and blocks that one transaction of the sweep looks at, so that no commit waits for it for long. */
const PIECE_BYTES = 4 * 1024 * 1024;
const PIECE_BLOCKS = 500;
/** Tombstones that one transaction of the sweep removes at most. */
const PIECE_RECORDS = 5_000;
/** Pages of 4 KiB that one piece gives back to the file system at most. */
const PIECE_PAGES = 1_024;
/**
 * Free pages that are kept for what comes next, so that the file does not shrink and grow again with each sweep: at least so
 * many, and half as many as are in use.
 */
const SPARE_PAGES = 4_096;
const SPARE_PER_USED = 0.5;
/** A tombstone of a compacted topic stays for this long, in ms, so that a slow reader sees it: a day, as in Kafka. */
const TOMBSTONE_MS = 86_400_000;

export interface RetentionOptions {
  /** Greatest size of a partition, in bytes of records, where its topic names none. */
  partitionBytes: number;
}

interface PartitionRow {
  topic: number;
  name: string;
  partition: number;
  first: number;
  next: number;
  bytes: number;
  retention_ms: number | null;
  retention_bytes: number | null;
  /** Least committed offset of all groups of the topic (0: one of them has none); null: no group. */
  done: number | null;
}

interface Cut {
  before: number;
  bytes: number;
  /** Records among them that a group had not committed. */
  unread: number;
}

/**
 * Removes records that are kept no longer, one piece per call; answers whether there is more to do.
 *
 * - A record that every known group of its topic has committed, or of a topic without groups, goes `retentionMs` after it was
 *   written. One that a group has not committed stays.
 * - A partition above its bound in bytes loses its oldest records, read or not, so that the disk is bounded; unread ones are
 *   an event and counted.
 * - Compacted topics have one record per key as they are; their tombstones go after a day.
 */
export function sweepPiece(db: Database, nowMs: number, telemetry: Telemetry, options: RetentionOptions): boolean {
  const rows = db.all<PartitionRow>(
    `SELECT t.id AS topic, t.name, p.partition, p.first, p.next, p.bytes, t.retention_ms, t.retention_bytes,
       (SELECT min(coalesce(g.next, 0)) FROM group_offsets AS g WHERE g.topic = t.id AND g.partition = p.partition) AS done
     FROM topics AS t JOIN partitions AS p ON p.topic = t.id WHERE t.compacted = 0 AND p.first < p.next`,
  );
  for (const row of rows) {
    const cut = db.write(() => cutPartition(db, row, nowMs, row.retention_bytes ?? options.partitionBytes));
    if (cut === null) continue;
    if (cut.unread > 0) {
      const fields = { topic: row.name, partition: row.partition, records: cut.unread, before: cut.before };
      telemetry.count('bus_unread_removed_total', { topic: row.name }, cut.unread);
      telemetry.event(
        'error',
        'records that a group had not read were removed: the partition is above its bound',
        fields,
      );
    }
    return true;
  }
  return sweepTombstones(db, nowMs) || giveBackPages(db);
}

interface BlockRow {
  last: number;
  records: number;
  at: number;
  bytes: number;
}

/**
 * Cuts a partition between two records: what is before is gone for every reader at once, and from the file with the rest of its
 * block.
 */
function cutPartition(db: Database, row: PartitionRow, nowMs: number, boundBytes: number): Cut | null {
  const { topic, partition } = row;
  const oldestMs = row.retention_ms === null ? Number.NEGATIVE_INFINITY : nowMs - row.retention_ms;
  const cut: Cut = { before: row.first, bytes: 0, unread: 0 };
  const select = db.statement(
    `SELECT last, records, at, length(data) AS bytes FROM blocks WHERE topic = ? AND partition = ? AND last >= ?
     ORDER BY last LIMIT ?`,
  );
  for (const one of select.iterate(topic, partition, row.first, PIECE_BLOCKS)) {
    const block = one as unknown as BlockRow;
    const done = block.at < oldestMs ? (row.done ?? row.next) : row.first;
    cutBlock(db, row, block, done, row.bytes - boundBytes, cut);
    if (cut.before <= block.last || cut.bytes >= PIECE_BYTES) break;
  }
  if (cut.before === row.first) return null;
  db.run('DELETE FROM blocks WHERE topic = ? AND partition = ? AND last < ?', topic, partition, cut.before);
  const sql = 'UPDATE partitions SET first = ?, bytes = bytes - ? WHERE topic = ? AND partition = ?';
  db.run(sql, cut.before, cut.bytes, topic, partition);
  return cut;
}

/** Moves the cut on into a block, or past it: up to `done`, and until `excess` bytes of the partition are cut. */
function cutBlock(
  db: Database,
  { topic, partition, done: read }: PartitionRow,
  { last, records, bytes }: BlockRow,
  done: number,
  excess: number,
  cut: Cut,
): void {
  const from = cut.before;
  const blockFirst = last + 1 - records;
  const whole = done > last || excess - cut.bytes >= bytes + ROW_OVERHEAD_BYTES;
  if (whole && from === blockFirst) {
    cut.before = last + 1;
    cut.bytes += bytes + ROW_OVERHEAD_BYTES;
  } else if (done > from || excess > cut.bytes) {
    const sql = 'SELECT data FROM blocks WHERE topic = ? AND partition = ? AND last = ?';
    const reader = new BlockReader(db.get<{ data: Uint8Array }>(sql, topic, partition, last)!.data);
    reader.skip(from - blockFirst);
    while (cut.before <= last && (cut.before < done || excess > cut.bytes)) {
      const { position } = reader;
      reader.skip(1);
      cut.before += 1;
      cut.bytes += reader.position - position;
    }
    if (cut.before > last) cut.bytes += ROW_OVERHEAD_BYTES;
  }
  cut.unread += Math.max(0, cut.before - Math.max(from, read ?? cut.before));
}

function sweepTombstones(db: Database, nowMs: number): boolean {
  return db.write(() => {
    const old = db.all<{ topic: number; partition: number; offset: number; key: string }>(
      `SELECT m.topic, m.partition, m.offset, m.key FROM topics AS t JOIN messages AS m ON m.topic = t.id
       WHERE t.compacted = 1 AND m.value IS NULL AND m.at < ? LIMIT ?`,
      nowMs - TOMBSTONE_MS,
      PIECE_RECORDS,
    );
    for (const { topic, partition, offset, key } of old) {
      db.run('DELETE FROM messages WHERE topic = ? AND partition = ? AND offset = ?', topic, partition, offset);
      db.run('DELETE FROM compacted WHERE topic = ? AND partition = ? AND key = ?', topic, partition, key);
      const sql = 'UPDATE partitions SET bytes = bytes - ? WHERE topic = ? AND partition = ?';
      db.run(sql, ROW_OVERHEAD_BYTES + key.length, topic, partition);
    }
    return old.length === PIECE_RECORDS;
  });
}

/** Gives free pages back to the file system, some at a time; the file is cut at the next checkpoint. */
function giveBackPages(db: Database): boolean {
  const { freelist_count } = db.get<{ freelist_count: number }>('PRAGMA freelist_count')!;
  const { page_count } = db.get<{ page_count: number }>('PRAGMA page_count')!;
  const tooMany = freelist_count - Math.max(SPARE_PAGES, Math.floor((page_count - freelist_count) * SPARE_PER_USED));
  if (tooMany <= 0) return false;
  db.exec(`PRAGMA incremental_vacuum(${Math.min(PIECE_PAGES, tooMany)})`);
  return tooMany > PIECE_PAGES;
}
