import type { OperationView } from '../sdk/operation.ts';
import {
  CONNECTION,
  CONNECTION_USAGE,
  clientOf,
  print,
  printJson,
  printTable,
  readArguments,
  subcommands,
  visible,
  wholeOf,
} from './options.ts';

const USAGE = `Usage: carillon operation list | show KEY [options]

  list            bulk operations, newest first
  show KEY        progress, counts and errors of one

  --limit N       list: at most N (default 50)
  --wait          show: wait until it is done
${CONNECTION_USAGE}`;

/** Bulk operations. `show` exits with 1 when lines failed. */
export const operationCommand = subcommands(USAGE, {
  list: async (args) => {
    const { values } = readArguments(args, { ...CONNECTION, limit: { type: 'string' } }, [], USAGE);
    const limit = values.limit === undefined ? 50 : wholeOf(values.limit, '--limit', 1, 1_000);
    const operations = await clientOf(values).operations.list({ limit });
    if (values.json) printJson(operations);
    else if (operations.length === 0) print('no operations');
    else {
      const head = ['KEY', 'STATE', 'STARTED', 'LINES', 'CREATED', 'UPDATED', 'UNCHANGED', 'FAILED'];
      printTable(
        head,
        operations.map(({ key, state, startedAt, lines, counts }) => [
          key,
          state,
          startedAt,
          ...[lines, counts.created, counts.updated, counts.unchanged, counts.failed].map(String),
        ]),
      );
    }
    return 0;
  },
  show: async (args) => {
    const { values, words } = readArguments(args, { ...CONNECTION, wait: { type: 'boolean' } }, ['KEY'], USAGE);
    const { operations } = clientOf(values);
    const operation = await (values.wait ? operations.wait(words[0]!) : operations.get(words[0]!));
    if (values.json) printJson(operation);
    else tellOperation(operation);
    return operation.counts.failed === 0 ? 0 : 1;
  },
});

export function tellOperation({ key, state, lines, counts, errors }: OperationView): void {
  const { created, updated, unchanged, failed } = counts;
  print(`operation ${key}: ${state}, ${lines} lines`);
  print(`created ${created}, updated ${updated}, unchanged ${unchanged}, failed ${failed}`);
  for (const { line, jobKey, code, detail, field } of errors) {
    print(`  line ${line}${jobKey === undefined ? '' : ` (${visible(jobKey)})`}: ${field ?? code}: ${visible(detail)}`);
  }
}
