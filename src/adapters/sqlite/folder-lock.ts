import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { carillonError } from '../../core/errors.ts';

const LOCK_FILE = 'lock.db';
const PID_FILE = 'lock.pid';
/** Locks that are held. The garbage collector closes a database that nobody refers to, and with it the lock would be free. */
const held = new Set<DatabaseSync>();

/**
 * Takes a data folder for this process; the answer gives it back. Node has no file locks, SQLite has: the lock is that of an
 * exclusive transaction on a small file of its own, so the operating system frees it however the process ends (kill -9 too).
 * Beside it stands the pid of the holder, for the message of whoever comes second. Nobody may open the lock file by other
 * means: closing any descriptor of it would free the lock (POSIX, fcntl).
 */
export function lockFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const db = new DatabaseSync(join(folder, LOCK_FILE), { timeout: 0 });
  try {
    // In memory: an exclusive transaction without a change needs no journal.
    db.exec('PRAGMA journal_mode = MEMORY');
    db.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    db.close();
    throw carillonError(
      'setup-refused',
      `the data folder ${folder} is in use by the process with pid ${holderOf(folder)}: stop it, or name another folder`,
      {},
      error,
    );
  }
  held.add(db);
  writeFileSync(join(folder, PID_FILE), `${process.pid}\n`);
  return () => {
    rmSync(join(folder, PID_FILE), { force: true });
    db.close();
    held.delete(db);
  };
}

function holderOf(folder: string): string {
  try {
    return readFileSync(join(folder, PID_FILE), 'utf8').trim();
  } catch {
    return 'unknown';
  }
}
