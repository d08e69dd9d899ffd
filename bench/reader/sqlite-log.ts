/**
 * Reads the triggers of an embedded installation from its file, when it has ended: blocks of a topic in their order. The time
 * of a block is that of the process which wrote it, just before its commit.
 */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { BatchReader, type LogSink } from './record-batches.ts';

interface Block {
  records: number;
  at: number;
  data: Uint8Array;
}

/**
 * Answers how many records there were.
 * @throws Error where a block has not as many records as its row says
 */
export function readSqliteLog(folder: string, topic: string, sink: LogSink): number {
  const db = new DatabaseSync(join(folder, 'carillon.db'), { readOnly: true });
  try {
    const sql = `SELECT records, at, data FROM blocks WHERE topic = (SELECT id FROM topics WHERE name = ?)
                 ORDER BY partition, last`;
    const reader = new BatchReader(sink);
    let all = 0;
    for (const { records, at, data } of db.prepare(sql).iterate(topic) as Iterable<Block>) {
      const read = reader.block(data, at);
      if (read !== records) throw new Error(`a block has ${read} records, and its row says ${records}`);
      all += read;
    }
    return all;
  } finally {
    db.close();
  }
}
