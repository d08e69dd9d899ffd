import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { carillonError } from '../core/errors.ts';
import type { BulkSource } from '../sdk/bulk.ts';
import type { CarillonClient } from '../sdk/client.ts';
import { importCrontab } from '../sdk/import/crontab.ts';
import { IMPORT_BYTES, type Import, type ImportNote, type Refusal } from '../sdk/import/imported.ts';
import { importKubernetes } from '../sdk/import/kubernetes.ts';
import type { OperationView } from '../sdk/operation.ts';
import {
  CONNECTION,
  CONNECTION_USAGE,
  clientOf,
  print,
  printJson,
  readArguments,
  subcommands,
  visible,
} from './options.ts';

const USAGE = `Usage: carillon import crontab | kubernetes | jobs FILE [options]

  crontab FILE    a crontab; with --system in the form of /etc/crontab, with a user in each line
  kubernetes FILE CronJob manifests, YAML or JSON
  jobs FILE       a job file of "carillon export jobs"
FILE may be - for standard input. A part that cannot be imported is told with its line, and the rest is imported; a second
import of the same file changes nothing.

  --system        crontab: there is a user between schedule and command
  --zone ZONE     crontab, kubernetes: zone of what names none (default UTC)
  --prefix TEXT   crontab, kubernetes: begins each job key (default crontab/ and kubernetes/)
  --dry-run       crontab, kubernetes: print what would be imported, and ask no installation
${CONNECTION_USAGE}`;

const text = { type: 'string' } as const;
const flag = { type: 'boolean' } as const;
const OPTIONS = { ...CONNECTION, zone: text, prefix: text, 'dry-run': flag } as const;

/** Imports of files. Exit code 1 when a part was refused. */
export const importCommand = subcommands(USAGE, {
  crontab: async (args) => {
    const { values, words } = readArguments(args, { ...OPTIONS, system: flag }, ['FILE'], USAGE);
    const [file] = words as [string];
    const { system = false } = values;
    const name = file === '-' ? 'crontab' : file;
    const result = importCrontab(contentOf(file), { name, system, ...zoneAndPrefix(values) });
    const zoneless = result.jobs.some(({ form }) => form.schedule.kind === 'cron' && form.schedule.zone === undefined);
    if (zoneless) process.stderr.write('no zone is named for some lines: UTC is taken (--zone)\n');
    return finish(result, values);
  },
  kubernetes: async (args) => {
    const { values, words } = readArguments(args, OPTIONS, ['FILE'], USAGE);
    return finish(importKubernetes(contentOf(words[0]!), zoneAndPrefix(values)), values);
  },
  jobs: async (args) => {
    const { values, words } = readArguments(args, CONNECTION, ['FILE'], USAGE);
    return importJobs(words[0]!, values);
  },
});

type Values = Parameters<typeof clientOf>[0] & {
  json?: boolean | undefined;
  zone?: string | undefined;
  prefix?: string | undefined;
  'dry-run'?: boolean | undefined;
};

function zoneAndPrefix({ zone, prefix }: Values): { zone?: string; prefix?: string } {
  return { ...(zone !== undefined && { zone }), ...(prefix !== undefined && { prefix }) };
}

function contentOf(file: string): string {
  try {
    if (file !== '-' && statSync(file).size > IMPORT_BYTES) throw new Error(`has more than ${IMPORT_BYTES} bytes`);
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw carillonError('request-invalid', `${file}: ${(error as Error).message}`, { field: 'FILE' });
  }
}

async function finish(result: Import, values: Values): Promise<number> {
  if (values['dry-run']) {
    if (values.json) printJson({ ...result, jobs: result.jobs.map(({ line, form }) => ({ line, ...form })) });
    else tellDryRun(result);
    return result.refused.length === 0 ? 0 : 1;
  }
  const forms = result.jobs.map(({ form }) => form);
  const operation = forms.length === 0 ? null : await upload(clientOf(values), forms);
  const refused = [...result.refused, ...refusedOf(operation, (line) => result.jobs[line - 1]?.line ?? line)];
  tell(operation, refused, result.notes, values.json ?? false);
  return refused.length === 0 ? 0 : 1;
}

async function importJobs(file: string, values: Values): Promise<number> {
  if (file !== '-') statOf(file);
  /** Line of the file for each line that is sent: blank ones are not. */
  let lines: number[] = [];
  async function* content() {
    lines = [];
    let line = 0;
    const input = file === '-' ? process.stdin : createReadStream(file);
    for await (const read of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      line += 1;
      // A byte order mark is no part of the first job.
      const one = line === 1 ? read.replace(/^\ufeff/, '') : read;
      if (one.trim() === '') continue;
      lines.push(line);
      yield one;
    }
  }
  // Standard input cannot be read a second time.
  const operation = await upload(clientOf(values), file === '-' ? content() : content);
  const refused = refusedOf(operation, (line) => lines[line - 1] ?? line);
  tell(operation, refused, [], values.json ?? false);
  return operation.counts.failed === 0 ? 0 : 1;
}

function statOf(file: string): void {
  try {
    statSync(file);
  } catch (error) {
    throw carillonError('request-invalid', (error as Error).message, { field: 'FILE' });
  }
}

async function upload({ jobs, operations }: CarillonClient, source: BulkSource): Promise<OperationView> {
  const { key } = await jobs.bulk(source);
  return operations.wait(key);
}

function refusedOf(operation: OperationView | null, lineOf: (line: number) => number): Refusal[] {
  return (operation?.errors ?? []).map(({ line, jobKey, field, detail }) => ({
    line: lineOf(line),
    text: jobKey ?? '',
    reason: detail,
    ...(field !== undefined && { field }),
  }));
}

function tell(operation: OperationView | null, refused: Refusal[], notes: ImportNote[], json: boolean): void {
  const counts = operation?.counts ?? { created: 0, updated: 0, unchanged: 0, failed: 0 };
  if (json) {
    printJson({ operation: operation?.key ?? null, counts, refused, notes });
    return;
  }
  const more = counts.failed - (operation?.errors.length ?? 0);
  const total = refused.length + more;
  print(`created ${counts.created}, updated ${counts.updated}, unchanged ${counts.unchanged}, refused ${total}`);
  tellRefused(refused, notes);
  if (more > 0) print(`and ${more} more that are not listed`);
}

function tellDryRun({ jobs, refused, notes }: Import): void {
  for (const { line, form } of jobs) {
    const { schedule } = form;
    const when =
      schedule.kind === 'cron' ? `${schedule.expression} ${schedule.zone ?? 'UTC'}` : JSON.stringify(schedule);
    print(`line ${line}: ${visible(form.key)}  ${when}${form.state === 'paused' ? '  paused' : ''}`);
  }
  print(`${jobs.length} jobs would be imported, ${refused.length} parts refused`);
  tellRefused(refused, notes);
}

function tellRefused(refused: Refusal[], notes: ImportNote[]): void {
  for (const { line, field, reason, text: part } of refused) {
    print(`refused, line ${line}: ${field === undefined ? '' : `${field}: `}${visible(reason)}`);
    if (part !== '') print(`  ${visible(part)}`);
  }
  for (const note of notes) print(`note, line ${note.line}: ${visible(note.text)}`);
}
