import type { Fault, Told } from './fault.ts';
import type { Verdict } from './tally.ts';
import type { Delivery } from './world.ts';
import type { WritesVerdict } from './writes.ts';

/** One line of the table, over all times that the fault was dealt. */
export interface FaultResult {
  name: string;
  times: number;
  lost: number;
  duplicated_ids: number;
  duplicated_copies: number;
  early: number;
  max_lateness_ms: number;
  limit_ms: number | null;
  recovered_ms: number;
  /** What broke, as sentences; empty: all held. */
  wrong: string[];
  notes: string[];
}

/** A line without anything. */
export const NOTHING: Omit<FaultResult, 'name'> = {
  times: 1,
  lost: 0,
  duplicated_ids: 0,
  duplicated_copies: 0,
  early: 0,
  max_lateness_ms: 0,
  limit_ms: null,
  recovered_ms: 0,
  wrong: [],
  notes: [],
};

export interface ChaosResult {
  seed: number;
  minutes: number;
  /** Triggers that were due, per second, over all judged time. */
  offered_per_s: number;
  delivery: Delivery;
  /** The delivery that was asked for first, where another had to be taken. */
  delivery_refused: Delivery | null;
  /** Faults that this machine does not allow, with the reason. */
  skipped: { name: string; reason: string }[];
  faults: FaultResult[];
}

/** What one stroke of a fault came to. */
export interface Stroke {
  fault: Fault;
  told: Told | undefined;
  struckMs: number;
  verdict: Verdict;
}

/** How a stroke is judged. */
export interface Judging {
  delivery: Delivery;
  /** Limits of lateness are this many times those of the table: 1, or more where the machine does other work as well. */
  slack: number;
}

export function resultOf(
  { fault, told, struckMs, verdict: ofRates }: Stroke,
  { delivery, slack }: Judging,
): FaultResult {
  const { bounds } = fault;
  const { maxLatenessMs, lastLateMs } = told?.instead ?? ofRates;
  const verdict = { ...ofRates, maxLatenessMs, lastLateMs };
  for (const count of ['lost', 'duplicatedIds', 'duplicatedCopies', 'early', 'unexpected'] as const) {
    verdict[count] += told?.instead?.[count] ?? 0;
  }
  for (const count of ['lost', 'duplicatedIds', 'duplicatedCopies', 'early'] as const) {
    verdict[count] += told?.counts?.[count] ?? 0;
  }
  const recovered = verdict.lastLateMs === 0 ? 0 : Math.max(0, verdict.lastLateMs - struckMs);
  const limitMs = bounds.maxLatenessMs === null ? null : bounds.maxLatenessMs * slack + (told?.addedMs ?? 0);
  const wrong = [...(told?.wrong ?? []), ...broken(verdict, bounds.mayRepeat && delivery === 'at-least-once')];
  if (limitMs !== null && verdict.maxLatenessMs > limitMs) {
    wrong.push(`a trigger was ${verdict.maxLatenessMs} ms late, more than ${limitMs}`);
  }
  if (bounds.recoveredMs !== undefined && recovered > bounds.recoveredMs * slack) {
    wrong.push(`triggers were late for ${recovered} ms, more than ${bounds.recoveredMs * slack}`);
  }
  return {
    name: fault.name,
    times: 1,
    lost: verdict.lost,
    duplicated_ids: verdict.duplicatedIds,
    duplicated_copies: verdict.duplicatedCopies,
    early: verdict.early,
    max_lateness_ms: verdict.maxLatenessMs,
    limit_ms: limitMs,
    recovered_ms: recovered,
    wrong,
    notes: [...(told?.notes ?? [])],
  };
}

type Counted = Pick<Verdict, 'lost' | 'duplicatedCopies' | 'early' | 'unexpected'>;

function broken({ lost, duplicatedCopies, early, unexpected }: Counted, mayRepeat: boolean): string[] {
  const wrong: string[] = [];
  if (lost > 0) wrong.push(`${lost} triggers were lost`);
  if (early > 0) wrong.push(`${early} triggers were early`);
  if (unexpected > 0)
    wrong.push(`${unexpected} triggers were none of their job, or had another id than the first copy`);
  if (duplicatedCopies > 0 && !mayRepeat) wrong.push(`${duplicatedCopies} copies too many`);
  return wrong;
}

/** The writes as a line of the same table. */
export function writesResult(writes: WritesVerdict, delivery: Delivery): FaultResult {
  const { lost, duplicatedIds, duplicatedCopies, early, answered, told, missing } = writes;
  return {
    name: 'answered-writes',
    times: answered,
    lost,
    duplicated_ids: duplicatedIds,
    duplicated_copies: duplicatedCopies,
    early,
    max_lateness_ms: 0,
    limit_ms: null,
    recovered_ms: 0,
    wrong: [...broken({ lost, duplicatedCopies, early, unexpected: 0 }, delivery === 'at-least-once'), ...missing],
    notes: [
      Object.entries(told)
        .map(([kind, count]) => `${count} x ${kind}`)
        .join(', '),
    ],
  };
}

/** A fault that was dealt several times is one line: sums of what is counted, the worst of what is measured. */
export function merged(results: readonly FaultResult[]): FaultResult[] {
  const byName = new Map<string, FaultResult>();
  for (const one of results) {
    const sum = byName.get(one.name);
    if (sum === undefined) {
      byName.set(one.name, { ...one, wrong: [...one.wrong], notes: [...one.notes] });
      continue;
    }
    for (const count of ['times', 'lost', 'duplicated_ids', 'duplicated_copies', 'early'] as const)
      sum[count] += one[count];
    sum.max_lateness_ms = Math.max(sum.max_lateness_ms, one.max_lateness_ms);
    sum.recovered_ms = Math.max(sum.recovered_ms, one.recovered_ms);
    if (sum.limit_ms !== null && one.limit_ms !== null) sum.limit_ms = Math.max(sum.limit_ms, one.limit_ms);
    sum.wrong.push(...one.wrong);
    sum.notes.push(...one.notes);
  }
  return [...byName.values()];
}

export function printTable({ faults, skipped, seed, delivery, delivery_refused, offered_per_s }: ChaosResult): void {
  const head = ['fault', 'times', 'lost', 'dup. ids', 'copies', 'early', 'max late ms', 'limit', 'recovered ms', ''];
  const rows = faults.map((one) => [
    one.name,
    ...[one.times, one.lost, one.duplicated_ids, one.duplicated_copies, one.early, one.max_lateness_ms].map(String),
    one.limit_ms === null ? '-' : String(one.limit_ms),
    String(one.recovered_ms),
    one.wrong.length === 0 ? 'ok' : 'FAILED',
  ]);
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)));
  console.log(`\nseed ${seed}, ${delivery}, ${offered_per_s} triggers/s offered`);
  if (delivery_refused !== null) console.log(`${delivery_refused} is refused by this installation`);
  for (const row of [head, ...rows])
    console.log(row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '));
  for (const { name, reason } of skipped) console.log(`SKIPPED ${name}: ${reason}`);
  for (const { name, notes } of faults) if (notes.length > 0) console.log(`${name}: ${notes.join('; ')}`);
  for (const { name, wrong } of faults) for (const one of wrong) console.error(`FAILED ${name}: ${one}`);
}
