import type { Bounds } from './limits.ts';
import type { Verdict } from './tally.ts';
import type { World } from './world.ts';

export interface Fault {
  /** In words of the table, with dashes: the name in the output and of `--faults`. */
  name: string;
  /** A line of `LIMITS`, or what holds beside the table. */
  bounds: Bounds;
  /** Does the harm and takes it back; ends when the world is whole. What it throws is a failure of the fault. */
  strike(world: World): Promise<Told | undefined>;
}

/** What a fault found beside triggers. */
export interface Told {
  /** Added to the greatest lateness that is allowed, in ms: a part of it that is not Carillon's. */
  addedMs?: number;
  /** Triggers whose lateness is judged in place of that of all: those of another tenant. What is lost of them counts too. */
  instead?: Verdict;
  /** Of jobs that only this fault has. */
  counts?: Pick<Verdict, 'lost' | 'duplicatedIds' | 'duplicatedCopies' | 'early'>;
  /** What broke, as sentences. */
  wrong?: string[];
  /** Figures for people. */
  notes?: string[];
}
