import { BlockWriter } from './block.ts';
import type { Database } from './database.ts';

/** What a block takes beside its data in the size of its partition, in bytes, when this step was made. */
const OVERHEAD_BYTES = 24;
/** Blocks are written when so many records wait. */
const WAITING_RECORDS = 1_000;

interface Partition {
  topic: number;
  partition: number;
}

interface Row {
  offset: number;
  key: string | null;
  value: Uint8Array | null;
  headers: string | null;
  at: number;
}

/**
 * The step that made blocks of records (`block.ts`): those of topics that are not compacted leave `messages`. A block has one
 * time, so records of another time begin another.
 */
export function recordsToBlocks(db: Database): void {
  db.exec(`
    -- last: offset of the last record; those of a block have no holes, so the first is last + 1 - records.
    CREATE TABLE blocks (
      topic INTEGER NOT NULL, partition INTEGER NOT NULL, last INTEGER NOT NULL, records INTEGER NOT NULL,
      at INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (topic, partition, last)
    ) STRICT, WITHOUT ROWID;
  `);
  const sql = `SELECT p.topic, p.partition FROM partitions AS p JOIN topics AS t ON t.id = p.topic WHERE t.compacted = 0`;
  for (const partition of db.all<Partition>(sql)) movePartition(db, partition);
}

function movePartition(db: Database, { topic, partition }: Partition): void {
  const select = db.statement(
    'SELECT offset, key, value, headers, at FROM messages WHERE topic = ? AND partition = ? ORDER BY offset',
  );
  const insert = 'INSERT INTO blocks (topic, partition, last, records, at, data) VALUES (?, ?, ?, ?, ?, ?)';
  const writer = new BlockWriter();
  let waiting = 0;
  let bytesOfAll = 0;
  let before: Row | null = null;
  const write = (): void => {
    let last = (before?.offset ?? 0) - waiting;
    for (const { bytes, records } of writer.blocks()) {
      last += records;
      bytesOfAll += OVERHEAD_BYTES + bytes.length;
      db.run(insert, topic, partition, last, records, before!.at, bytes);
    }
    writer.release();
    waiting = 0;
  };
  for (const one of select.iterate(topic, partition)) {
    const row = one as unknown as Row;
    if (before !== null && (row.at !== before.at || waiting >= WAITING_RECORDS)) write();
    const { key, value, headers } = row;
    const named = headers === null ? {} : { headers: JSON.parse(headers) as Record<string, string> };
    writer.append({ partition, key, value, ...named });
    waiting += 1;
    before = row;
  }
  write();
  db.run('DELETE FROM messages WHERE topic = ? AND partition = ?', topic, partition);
  db.run('UPDATE partitions SET bytes = ? WHERE topic = ? AND partition = ?', bytesOfAll, topic, partition);
}
