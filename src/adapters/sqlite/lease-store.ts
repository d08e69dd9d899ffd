import type { Delivery } from '../../core/job.ts';
import type { Leadership, Lease, LeaseStore, Session, SessionReport } from '../../ports/lease-store.ts';
import type { Database } from './database.ts';

interface SessionRow {
  beat: number;
  doc: string;
}

const sessionOf = ({ beat, doc }: SessionRow): Session => ({ ...(JSON.parse(doc) as Session), beat });

/**
 * Sessions and leadership are renewed several times a second and are of no use after the end of the process (whoever takes
 * the folder ends them), so they stand in a file of their own: no fsync, and no turn among those who write triggers. Leases
 * stand with the data, since their epochs must never go back.
 */
export class SqliteLeaseStore implements LeaseStore {
  readonly #db: Database;
  readonly #run: Database;

  constructor(db: Database, run: Database) {
    this.#db = db;
    this.#run = run;
  }

  async openSession(session: Session): Promise<void> {
    const sql = 'INSERT INTO sessions (incarnation, beat, doc) VALUES (?, ?, ?)';
    this.#run.run(sql, session.incarnation, session.beat, JSON.stringify(session));
  }

  async renewSession(incarnation: string, report: SessionReport): Promise<boolean> {
    return this.#run.write(() => {
      const row = this.#run.get<SessionRow>('SELECT beat, doc FROM sessions WHERE incarnation = ?', incarnation);
      if (row === undefined) return false;
      const sql = 'UPDATE sessions SET beat = beat + 1, doc = ? WHERE incarnation = ?';
      return this.#run.run(sql, JSON.stringify({ ...sessionOf(row), ...report }), incarnation) === 1;
    });
  }

  async endSession(incarnation: string, seenBeat: number | null): Promise<boolean> {
    const sql = 'DELETE FROM sessions WHERE incarnation = ? AND beat = coalesce(?, beat)';
    return this.#run.run(sql, incarnation, seenBeat) === 1;
  }

  async sessions(): Promise<Session[]> {
    return this.#run.all<SessionRow>('SELECT beat, doc FROM sessions ORDER BY incarnation').map(sessionOf);
  }

  async lead(role: string, incarnation: string, seen: { term: number; beat: number } | null): Promise<Leadership> {
    return this.#run.write(() => {
      const now = this.#leader(role);
      const kept = now?.holder === incarnation;
      const free = now === undefined || now.holder === null || (now.term === seen?.term && now.beat === seen.beat);
      if (kept) this.#run.run('UPDATE leaders SET beat = beat + 1 WHERE role = ?', role);
      else if (free) {
        const sql = 'INSERT OR REPLACE INTO leaders (role, holder, term, beat) VALUES (?, ?, ?, 0)';
        this.#run.run(sql, role, incarnation, (now?.term ?? 0) + 1);
      }
      const { holder, term, beat } = this.#leader(role)!;
      return { holder: holder!, term, beat, mine: holder === incarnation };
    });
  }

  #leader(role: string): { holder: string | null; term: number; beat: number } | undefined {
    return this.#run.get('SELECT holder, term, beat FROM leaders WHERE role = ?', role);
  }

  async resign(role: string, incarnation: string): Promise<void> {
    this.#run.run('UPDATE leaders SET holder = NULL WHERE role = ? AND holder = ?', role, incarnation);
  }

  async createSlots(slots: readonly { delivery: Delivery; slot: number }[]): Promise<void> {
    const sql = `INSERT OR IGNORE INTO leases (delivery, slot, owner, epoch, wanted) VALUES (?, ?, NULL, 0, 'keep')`;
    this.#db.write(() => {
      for (const { delivery, slot } of slots) this.#db.run(sql, delivery, slot);
    });
  }

  async leases(owner?: string): Promise<Lease[]> {
    const sql = 'SELECT delivery, slot, owner, epoch, wanted FROM leases';
    const rows = owner === undefined ? this.#db.all<Lease>(sql) : this.#db.all<Lease>(`${sql} WHERE owner = ?`, owner);
    return rows.map((row) => ({ ...row }));
  }

  async assign({ delivery, slot, owner, epoch }: Lease, to: string): Promise<boolean> {
    if (owner !== null) return false;
    const sql = `UPDATE leases SET owner = ?, epoch = epoch + 1, wanted = 'keep'
                 WHERE delivery = ? AND slot = ? AND owner IS NULL AND epoch = ?`;
    return this.#db.run(sql, to, delivery, slot, epoch) === 1;
  }

  async ask({ delivery, slot, owner, epoch }: Lease, wanted: 'keep' | 'release'): Promise<boolean> {
    const sql = 'UPDATE leases SET wanted = ? WHERE delivery = ? AND slot = ? AND owner = ? AND epoch = ?';
    return this.#db.run(sql, wanted, delivery, slot, owner, epoch) === 1;
  }

  async free({ delivery, slot, owner, epoch }: Lease): Promise<boolean> {
    const sql = `UPDATE leases SET owner = NULL, wanted = 'keep'
                 WHERE delivery = ? AND slot = ? AND owner = ? AND epoch = ?`;
    return this.#db.run(sql, delivery, slot, owner, epoch) === 1;
  }
}
