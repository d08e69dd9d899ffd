import { carillonError } from '../../core/errors.ts';
import { changeKey } from '../../core/messages.ts';
import type { OperationCounts, OperationError, OperationStore } from '../../ports/operation-store.ts';
import type { ChangeDone } from './sequence.ts';
import type { LineWork } from './work.ts';

/** Rounds in which a count that lost a race is made again. */
const COUNT_ROUNDS = 5;
/** Counted offsets that are remembered: 8 partitions of 1,000 operations. */
const COUNTED_KEPT = 8_000;

/** Results of lines of bulk operations in one partition. */
export interface LineResults {
  partition: number;
  done: readonly ChangeDone[];
  /** Lines that made jobs in this run. */
  created: readonly LineWork[];
}

interface OfOne {
  cluster: string;
  key: string;
  done: ChangeDone[];
  /** Offsets of the lines that made jobs. */
  created: number[];
}

/** Counts the results of lines of bulk operations, each line once, however often its batch is applied. */
export class OperationCounter {
  readonly #operations: OperationStore;
  /** The offset that this process counted last, by operation and partition: it spares a look before most counts. */
  readonly #counted = new Map<string, number>();

  constructor(operations: OperationStore) {
    this.#operations = operations;
  }

  async count(results: LineResults): Promise<void> {
    for (const ofOne of byOperation(results).values()) await this.#countOne(results.partition, ofOne);
  }

  async #countOne(partition: number, { cluster, key, done, created }: OfOne): Promise<void> {
    const name = `${changeKey(cluster, key)}/${partition}`;
    for (let round = 0; round < COUNT_ROUNDS; round++) {
      const fromOffset = this.#counted.get(name) ?? (await this.#stored(cluster, key, partition));
      // Operations are forgotten some time after their end; then nobody asks for the count.
      if (fromOffset === null) return;
      const open = done.filter(({ offset }) => offset > fromOffset).sort((a, b) => a.offset - b.offset);
      const made = created.filter((offset) => offset > fromOffset);
      const toOffset = made.reduce((most, offset) => Math.max(most, offset), open.at(-1)?.offset ?? -1);
      if (toOffset === -1) return;
      const results = resultsOf(open, made.length);
      this.#counted.delete(name);
      if (!(await this.#operations.count({ cluster, key, partition, fromOffset, toOffset, ...results }))) continue;
      if (this.#counted.size >= COUNTED_KEPT) this.#counted.clear();
      this.#counted.set(name, toOffset);
      return;
    }
    throw carillonError('unavailable', 'an operation is counted by somebody else; the batch is repeated');
  }

  /** -1: nothing was counted; null: there is no such operation. */
  async #stored(cluster: string, key: string, partition: number): Promise<number | null> {
    const stored = await this.#operations.get(cluster, key);
    return stored === null ? null : (stored.counted[String(partition)] ?? -1);
  }
}

function byOperation({ done, created }: LineResults): Map<string, OfOne> {
  const found = new Map<string, OfOne>();
  const of = (cluster: string, key: string): OfOne => {
    const name = changeKey(cluster, key);
    const known = found.get(name);
    if (known !== undefined) return known;
    const fresh: OfOne = { cluster, key, done: [], created: [] };
    found.set(name, fresh);
    return fresh;
  };
  for (const one of done) {
    const { cluster, operation } = one.change;
    if (operation !== undefined) of(cluster, operation.key).done.push(one);
  }
  let last: OfOne | null = null;
  for (const { line } of created) {
    if (last === null || last.key !== line.operation || last.cluster !== line.cluster) {
      last = of(line.cluster, line.operation);
    }
    last.created.push(line.offset);
  }
  return found;
}

function resultsOf(
  done: readonly ChangeDone[],
  created: number,
): { counts: Partial<OperationCounts>; errors: OperationError[] } {
  const counts: OperationCounts = { created, updated: 0, unchanged: 0, failed: 0 };
  const errors: OperationError[] = [];
  for (const { change, outcome, repeated } of done) {
    // A line that was sent twice, since nobody knew whether the first time had arrived, is one line.
    if (repeated) continue;
    if (!outcome.ok) {
      counts.failed += 1;
      const { code, detail, field } = outcome;
      const place = field === undefined ? {} : { field };
      errors.push({ line: change.operation!.line, jobKey: change.key, code, detail, ...place });
    } else if (outcome.result in counts) counts[outcome.result as keyof OperationCounts] += 1;
  }
  return { counts, errors };
}
