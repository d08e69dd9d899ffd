import { carillonError } from '../../core/errors.ts';
import type { OperationCounts, OperationError, OperationStore } from '../../ports/operation-store.ts';
import type { ChangeDone } from './sequence.ts';

/** Rounds in which a count that lost a race is made again. */
const COUNT_ROUNDS = 5;

/** Counts the results of lines of bulk operations, each line once, however often its batch is applied. */
export async function countOperations(
  operations: OperationStore,
  partition: number,
  done: readonly ChangeDone[],
): Promise<void> {
  const lines = done.filter(({ change }) => change.operation !== undefined);
  const byOperation = Map.groupBy(lines, ({ change }) => `${change.cluster}/${change.operation!.key}`);
  for (const ofOne of byOperation.values()) await countOne(operations, partition, ofOne);
}

async function countOne(operations: OperationStore, partition: number, done: readonly ChangeDone[]): Promise<void> {
  const { cluster, operation } = done[0]!.change;
  const { key } = operation!;
  for (let round = 0; round < COUNT_ROUNDS; round++) {
    const stored = await operations.get(cluster, key);
    // Operations are forgotten some time after their end; then nobody asks for the count.
    if (stored === null) return;
    const fromOffset = stored.counted[String(partition)] ?? -1;
    const open = done.filter(({ offset }) => offset > fromOffset).sort((a, b) => a.offset - b.offset);
    const last = open.at(-1);
    if (last === undefined) return;
    const results = resultsOf(open);
    if (await operations.count({ cluster, key, partition, fromOffset, toOffset: last.offset, ...results })) return;
  }
  throw carillonError('unavailable', 'an operation is counted by somebody else; the batch is repeated');
}

function resultsOf(done: readonly ChangeDone[]): { counts: Partial<OperationCounts>; errors: OperationError[] } {
  const counts: OperationCounts = { created: 0, updated: 0, unchanged: 0, failed: 0 };
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
