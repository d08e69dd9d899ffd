import type { Delivery } from '../core/job.ts';

/**
 * Sessions of processes, leadership of managers and leases of slots. MongoDB with majority in cluster mode. No stored time
 * decides anything: a session and a leadership carry a beat that rises with each renewal, and whoever watches counts by its
 * own monotonic clock how long it stood still. Every write is a compare-and-set; `false` means that somebody else was first.
 */
export interface LeaseStore {
  /** Opens the session of a new incarnation. */
  openSession(session: Session): Promise<void>;
  /** Raises the beat and stores the report; false: the session was declared dead or closed, and stays so. */
  renewSession(incarnation: string, report: SessionReport): Promise<boolean>;
  /** Ends a session where its beat is still the one seen (death), or whatever it is (null: own close). */
  endSession(incarnation: string, seenBeat: number | null): Promise<boolean>;
  /** All living sessions. */
  sessions(): Promise<Session[]>;
  /**
   * Takes or keeps the leadership: succeeds for its holder, for nobody's, or where term and beat are those `seen`. A kept one
   * has a higher beat, a new holder has a higher term.
   */
  lead(role: string, incarnation: string, seen: { term: number; beat: number } | null): Promise<Leadership>;
  /** Gives the leadership up. */
  resign(role: string, incarnation: string): Promise<void>;
  /** Inserts leases (free, epoch 0) for slots that have none. */
  createSlots(slots: readonly { delivery: Delivery; slot: number }[]): Promise<void>;
  /** All leases, or those of one owner. */
  leases(owner?: string): Promise<Lease[]>;
  /** Gives a free slot to an owner and raises its epoch; false where epoch or state are no longer those seen. */
  assign(lease: Lease, owner: string): Promise<boolean>;
  /** Asks the owner to let go (`wanted: 'release'`), or takes the request back (`'keep'`); where owner and epoch are those seen. */
  ask(lease: Lease, wanted: 'keep' | 'release'): Promise<boolean>;
  /** Frees a slot where owner and epoch are those seen: by the owner after its drain, or by a manager after its death. A request to let go ends with it. */
  free(lease: Lease): Promise<boolean>;
}

export interface Session extends SessionReport {
  /** Name of one life of a process: random, never used again. */
  incarnation: string;
  role: 'worker' | 'manager' | 'api';
  /** Host and pid, for people. */
  host: string;
  pid: number;
  startedMs: number;
  beat: number;
}

export interface SessionReport {
  /** Triggers per second by slot (named by `slotName`), measured by a worker. */
  rates: Record<string, number>;
  /** How far the wheels are behind, in ms; 0 when they keep up. */
  wheelLagMs: number;
  /** How many wheels (threads) the worker has; 0: it is about to leave, lets go of its slots and takes no more. */
  wheels: number;
}

export interface Leadership {
  holder: string;
  term: number;
  beat: number;
  /** Whether the asking incarnation is the holder now. */
  mine: boolean;
}

export interface Lease {
  delivery: Delivery;
  slot: number;
  /** Incarnation of the owner, or null: free. */
  owner: string | null;
  /** Rises by one with each assignment. */
  epoch: number;
  wanted: 'keep' | 'release';
}
