import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readSqliteLog } from '../../../bench/reader/sqlite-log.ts';

const T = 1_790_000_000_000;

describe('the reader of embedded installations', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'carillon-bench-'));
    const db = new DatabaseSync(join(folder, 'carillon.db'));
    db.exec('CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT)');
    db.exec(
      'CREATE TABLE messages (topic INTEGER, partition INTEGER, offset INTEGER, key TEXT, headers TEXT, at INTEGER)',
    );
    db.exec(`INSERT INTO topics VALUES (1, 'other'), (2, 'triggers')`);
    const add = db.prepare('INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)');
    add.run(2, 1, 1, 'job-00000007', `{"id":"3-8-${T + 2}"}`, T + 3);
    add.run(2, 1, 0, 'job-00000007', `{"ce_id":"3-8-${T}","ce_type":"x"}`, T + 1);
    add.run(2, 0, 0, 'job-00000001', `{"id":"3-2-${T}-fby-hand"}`, T + 1);
    add.run(1, 0, 0, 'job-00000001', `{"id":"3-2-${T}"}`, T + 1);
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
    expect(readSqliteLog(folder, 'triggers', sink)).toBe(3);
    expect(said).toEqual(['foreign', [7, T, T + 1, -1], [7, T + 2, T + 3, -1]]);
  });
});
