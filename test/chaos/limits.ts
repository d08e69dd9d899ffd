/**
 * What must hold under each fault: the table of src/DESIGN.md, line by line, and the same as numbers. A test compares the two
 * texts; the suite judges by the numbers.
 */
export interface Limit extends Bounds {
  /** The two cells of the table, word by word. */
  row: readonly [fault: string, mustShow: string];
}

/** Nothing may ever be lost, early, or under another id than before; this is what differs. */
export interface Bounds {
  /** Greatest lateness of a trigger due while the fault and its repair go on, in ms; null: the table sets none. */
  maxLatenessMs: number | null;
  /** Until the last trigger that was late, from the stroke on, in ms; null: the table sets none. */
  recoveredMs?: number;
  /** At-least-once may repeat triggers, with the ids that they had; exactly-once never. */
  mayRepeat: boolean;
}

/** "Unaffected" is: nobody would call a trigger late, which begins at this many ms. */
const UNAFFECTED_MS = 1_000;
const AS_WORKER_KILL = 3_000;

const afterCrash = { maxLatenessMs: AS_WORKER_KILL, mayRepeat: true };

export const LIMITS = {
  workerKilled: {
    row: [
      'worker kill -9 (2 workers)',
      'lost 0; exactly-once: no second copy for a read-committed reader; at-least-once: same ids only; max lateness <= 3 s (goal 1.5 s)',
    ],
    ...afterCrash,
  },
  moved: {
    row: ['planned move, rolling restart of all workers and managers', 'lost 0, duplicated 0, max lateness <= 300 ms'],
    maxLatenessMs: 300,
    mayRepeat: false,
  },
  managersKilled: {
    row: ['both managers killed for 60 s', 'triggers unaffected'],
    maxLatenessMs: UNAFFECTED_MS,
    mayRepeat: false,
  },
  redisFlushed: {
    row: ['Redis flushed', 'lost 0; recovered within 10 s for 100,000 jobs'],
    maxLatenessMs: null,
    recoveredMs: 10_000,
    mayRepeat: true,
  },
  mongodbAway: {
    row: ['MongoDB primary killed (3 members), and all members away for 30 s', 'triggers unaffected, no lease moves'],
    maxLatenessMs: UNAFFECTED_MS,
    mayRepeat: false,
  },
  redisPrimaryKilled: {
    row: [
      'Redis primary killed (Sentinel, Cluster), half of the jobs every 30 s',
      'lost 0, max lateness <= 3 s, memory flat',
    ],
    maxLatenessMs: 3_000,
    mayRepeat: true,
  },
  kafkaLeaderKilled: {
    row: [
      'Kafka leader killed (3 brokers)',
      'lost 0; jobs on live partitions, in slots whose progress and coordinator leaders live, <= 1 s late, the others within 3 s of the new leader; LSO = HW everywhere at the end',
    ],
    // Counted from the new leader: the suite adds the time without one.
    maxLatenessMs: 3_000,
    mayRepeat: true,
  },
  leaderSlowed: {
    row: ['one leader slowed by 3 s', "other tenants' consumers unaffected"],
    maxLatenessMs: UNAFFECTED_MS,
    mayRepeat: true,
  },
  ownerKilled: {
    row: [
      'worker killed 0 to 1,000 ms after it was given a slot; SIGSTOP of the old owner, kill of the new, SIGCONT of the old',
      'as worker kill',
    ],
    ...afterCrash,
  },
  oneShots: {
    row: ['kill -9 under 10,000 immediate one-shots/s, API clock +/- 500 ms', 'lost 0, duplicated 0'],
    maxLatenessMs: null,
    mayRepeat: true,
  },
  frozen: {
    row: ['SIGSTOP 10 s of a worker', 'exactly-once: no second copy; at-least-once: same ids'],
    maxLatenessMs: null,
    mayRepeat: true,
  },
  simulated: {
    row: ['1,000 seeds x 24 simulated hours', 'no invariant broken'],
    maxLatenessMs: null,
    mayRepeat: false,
  },
  answered: {
    row: ['bulk lines answered 202 and single writes answered 2xx during all of the above', 'none lost'],
    maxLatenessMs: null,
    mayRepeat: true,
  },
} as const satisfies Record<string, Limit>;

/** Faults of the text beside the table (degraded modes): what they cost in lateness is told, and not limited. */
export const UNTABLED: Bounds = { maxLatenessMs: null, mayRepeat: true };

/** Between the faults. What a busy machine costs in lateness is told, and not limited. */
export const CALM: Bounds = { maxLatenessMs: null, mayRepeat: false };
