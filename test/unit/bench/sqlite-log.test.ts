import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readSqliteLog } from '../../../bench/reader/sqlite-log.ts';
import { BlockWriter } from '../../../src/adapters/sqlite/block.ts';

const T = 1_790_000_000_000;

describe('the reader of embedded installations', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'carillon-bench-'));
    const db = new DatabaseSync(join(folder, 'carillon.db'));
    db.exec('CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT)');
    db.exec(
      'CREATE TABLE blocks (topic INTEGER, partition INTEGER, last INTEGER, records INTEGER, at INTEGER, data BLOB)',
    );
    db.exec(`INSERT INTO topics VALUES (1, 'other'), (2, 'triggers')`);
    const add = db.prepare('INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?)');
    const put = (topic: number, partition: number, last: number, at: number, ...records: [string, string][]): void => {
      const writer = new BlockWriter();
      for (const [key, id] of records) {
        writer.append({ partition, key, value: Buffer.from('{}'), headers: { id } });
      }
      for (const { bytes } of writer.blocks()) add.run(topic, partition, last, records.length, at, bytes);
      writer.release();
    };
    put(2, 1, 2, T + 3, ['job-00000007', `3-8-${T + 2}`]);
    put(2, 1, 1, T + 1, ['job-00000007', `3-8-${T}`], ['job-00000009', `3-10-${T}`]);
    put(2, 0, 0, T + 1, ['job-00000001', `3-2-${T}-fby-hand`]);
    put(1, 0, 0, T + 1, ['job-00000001', `3-2-${T}`]);
    db.close();
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('reads the triggers of one topic in the order of each partition', () => {
    const said: unknown[] = [];
    const sink = {
      trigger: (...all: number[]) => said.push(all.slice(0, 4)),
      foreign: () => said.push('foreign'),
      ended: () => said.push('ended'),
    };
    expect(readSqliteLog(folder, 'triggers', sink)).toBe(4);
    expect(said).toEqual(['foreign', [7, T, T + 1, -1], [9, T, T + 1, -1], [7, T + 2, T + 3, -1]]);
  });
});
