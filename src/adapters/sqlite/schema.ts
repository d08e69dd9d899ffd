import { carillonError } from '../../core/errors.ts';
import { recordsToBlocks } from './blocks-step.ts';
import type { Database } from './database.ts';

/**
 * The forms of the data, oldest first: number n takes a file from form n - 1 to form n (`PRAGMA user_version`). A step that
 * was ever released is never changed; a change of form is a new step at the end.
 */
const STEPS: readonly (string | ((db: Database) => void))[] = [
  `
  -- The bus.
  CREATE TABLE topics (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL,
    compacted INTEGER NOT NULL, retention_ms INTEGER, retention_bytes INTEGER
  ) STRICT;
  -- first: no record before it is kept; next: offset of the record that comes next; bytes: size of what is kept.
  CREATE TABLE partitions (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL, first INTEGER NOT NULL, next INTEGER NOT NULL,
    bytes INTEGER NOT NULL, PRIMARY KEY (topic, partition)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE messages (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    key TEXT, value BLOB, headers TEXT, at INTEGER NOT NULL, PRIMARY KEY (topic, partition, offset)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX messages_tombstones ON messages (topic, at) WHERE value IS NULL;
  -- Compacted topics only: where the one record of a key stands.
  CREATE TABLE compacted (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL, key TEXT NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, key)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE lanes (id TEXT PRIMARY KEY, epoch INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  -- One row for each partition of a topic that a group ever read; next is null until its first commit.
  CREATE TABLE group_offsets (
    topic INTEGER NOT NULL, consumers TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER,
    PRIMARY KEY (topic, consumers, partition)
  ) STRICT, WITHOUT ROWID;
  -- Members and what they work on are of this run of the process: they are emptied when it starts.
  CREATE TABLE group_members (
    place INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, consumers TEXT NOT NULL, member TEXT NOT NULL
  ) STRICT;
  CREATE TABLE group_claims (
    topic TEXT NOT NULL, consumers TEXT NOT NULL, partition INTEGER NOT NULL, member TEXT NOT NULL,
    PRIMARY KEY (topic, consumers, partition)
  ) STRICT, WITHOUT ROWID;

  -- Jobs: doc is the job as JSON without the columns that change alone (state, reason, updated_ms).
  CREATE TABLE jobs (
    cluster TEXT NOT NULL, key TEXT NOT NULL, shard INTEGER NOT NULL, number INTEGER NOT NULL, version INTEGER NOT NULL,
    deleted INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT, updated_ms INTEGER NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL, zone TEXT, doc TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX jobs_key ON jobs (cluster, key);
  CREATE UNIQUE INDEX jobs_number ON jobs (shard, number);
  CREATE INDEX jobs_state ON jobs (cluster, state, key) WHERE deleted = 0;
  CREATE INDEX jobs_zone ON jobs (zone, cluster, key) WHERE deleted = 0 AND zone IS NOT NULL;
  CREATE INDEX jobs_deleted ON jobs (partition, offset) WHERE deleted = 1;
  CREATE TABLE job_calendars (
    cluster TEXT NOT NULL, key TEXT NOT NULL, calendar TEXT NOT NULL, PRIMARY KEY (cluster, key, calendar)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX job_calendars_calendar ON job_calendars (calendar, cluster, key);

  CREATE TABLE installation (one INTEGER PRIMARY KEY CHECK (one = 1), zone_data TEXT NOT NULL, doc TEXT NOT NULL) STRICT;
  CREATE TABLE clusters (name TEXT PRIMARY KEY, doc TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE calendars (name TEXT PRIMARY KEY, version INTEGER NOT NULL, doc TEXT NOT NULL) STRICT, WITHOUT ROWID;

  CREATE TABLE shards (
    id INTEGER PRIMARY KEY, delivery TEXT NOT NULL, slot INTEGER NOT NULL, state TEXT NOT NULL, jobs INTEGER NOT NULL,
    next_number INTEGER NOT NULL, triggers_per_second REAL NOT NULL, saturated INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX shards_open ON shards (delivery, jobs) WHERE state = 'open' AND saturated = 0;

  CREATE TABLE leases (
    delivery TEXT NOT NULL, slot INTEGER NOT NULL, owner TEXT, epoch INTEGER NOT NULL, wanted TEXT NOT NULL,
    PRIMARY KEY (delivery, slot)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE operations (
    cluster TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, started_ms INTEGER NOT NULL, accepted_ms INTEGER,
    lines INTEGER NOT NULL, hash TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
    unchanged INTEGER NOT NULL, failed INTEGER NOT NULL, PRIMARY KEY (cluster, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX operations_started ON operations (cluster, started_ms);
  CREATE INDEX operations_accepted ON operations (accepted_ms) WHERE state = 'accepted';
  CREATE TABLE operation_errors (
    cluster TEXT NOT NULL, key TEXT NOT NULL, place INTEGER NOT NULL, doc TEXT NOT NULL, PRIMARY KEY (cluster, key, place)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE operation_counted (
    cluster TEXT NOT NULL, key TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (cluster, key, partition)
  ) STRICT, WITHOUT ROWID;

  -- The trigger store. Records stand apart, so that a new score does not write them again. score null: no member;
  -- removed: a tombstone, which has no record. reaches is the first answer for this version.
  CREATE TABLE trigger_shards (
    shard INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, horizon_ms INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE trigger_members (
    shard INTEGER NOT NULL, number INTEGER NOT NULL, version INTEGER NOT NULL, score INTEGER, reaches INTEGER NOT NULL,
    removed INTEGER NOT NULL, changed_ms INTEGER NOT NULL, PRIMARY KEY (shard, number)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX trigger_members_score ON trigger_members (shard, score, version) WHERE score IS NOT NULL;
  CREATE INDEX trigger_members_removed ON trigger_members (shard, changed_ms) WHERE removed = 1;
  CREATE TABLE trigger_records (
    shard INTEGER NOT NULL, number INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY (shard, number)
  ) STRICT, WITHOUT ROWID;
  `,
  // Jobs that move are few, and looked for all the time.
  `CREATE INDEX jobs_moving ON jobs (cluster, key) WHERE deleted = 0 AND doc ->> '$.move' IS NOT NULL;`,
  // Rebuilds of shards: those that are there are whole.
  `ALTER TABLE trigger_shards ADD COLUMN build INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE trigger_shards ADD COLUMN whole INTEGER NOT NULL DEFAULT 1;`,
  // Blocks in place of a row per record, where a topic is not compacted.
  recordsToBlocks,
];

/** The file of sessions. A change of form is another name of the file: nothing in it is worth keeping. */
export const SESSION_TABLES = `
  CREATE TABLE IF NOT EXISTS sessions (
    incarnation TEXT PRIMARY KEY, beat INTEGER NOT NULL, doc TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS leaders (
    role TEXT PRIMARY KEY, holder TEXT, term INTEGER NOT NULL, beat INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`;

/** The newest form that this program knows. */
const DATA_FORM = STEPS.length;

/** Brings the file to the newest form, step by step; a file of a newer form is refused and left as it is. */
export function migrate(db: Database, folder: string): void {
  const stored = (): number => db.get<{ user_version: number }>('PRAGMA user_version')!.user_version;
  if (stored() > DATA_FORM) {
    throw carillonError(
      'setup-refused',
      `the data in ${folder} have form ${stored()} and this program knows forms up to ${DATA_FORM}: ` +
        'start the newer program that wrote them, or name another data folder',
    );
  }
  for (let form = stored() + 1; form <= DATA_FORM; form += 1) {
    db.write(() => {
      const step = STEPS[form - 1]!;
      if (typeof step === 'string') db.exec(step);
      else step(db);
      db.exec(`PRAGMA user_version = ${form}`);
    });
  }
}
