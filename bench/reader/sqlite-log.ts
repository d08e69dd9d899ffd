/**
 * Reads the triggers of an embedded installation from its file, when it has ended: rows of a topic in their order. The time
 * of a row is that of the process which wrote it, just before its commit.
 */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type LogSink, SHARD_NUMBERS } from './record-batches.ts';

interface Row {
  key: string;
  headers: string;
  at: number;
}

const NUMBER = /(\d+)$/;
/** The execution id of a schedule's occurrence, in either envelope. */
const ID = /"(?:ce_)?id":"(\d+)-(\d+)-(\d+)"/;

/** Answers how many rows there were. */
export function readSqliteLog(folder: string, topic: string, sink: LogSink): number {
  const db = new DatabaseSync(join(folder, 'carillon.db'), { readOnly: true });
  try {
    const sql = `SELECT key, headers, at FROM messages WHERE topic = (SELECT id FROM topics WHERE name = ?)
                 ORDER BY partition, offset`;
    let rows = 0;
    for (const { key, headers, at } of db.prepare(sql).iterate(topic) as Iterable<Row>) {
      rows += 1;
      const job = NUMBER.exec(key)?.[1];
      const [, shard, number, nominalMs] = ID.exec(headers) ?? [];
      if (job === undefined || nominalMs === undefined) sink.foreign();
      else sink.trigger(Number(job), Number(nominalMs), at, -1, Number(shard) * SHARD_NUMBERS + Number(number));
    }
    return rows;
  } finally {
    db.close();
  }
}
