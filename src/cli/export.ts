import { once } from 'node:events';
import { READ_ONLY_FIELDS } from '../core/form/job-schema.ts';
import { readJson } from '../management/json-source.ts';
import { Http, pathPart } from '../sdk/http.ts';
import { CONNECTION, CONNECTION_USAGE, connectionOf, readArguments, subcommands } from './options.ts';

const USAGE = `Usage: carillon export jobs [options] > FILE

Prints all jobs of a logical cluster that are enabled or paused, one JSON object a line, payloads byte for byte.
"carillon import jobs FILE" takes them into another installation, of either mode. Jobs that are finished, terminated or in
error are left out and counted.

  --prefix TEXT   keys that begin with this
${CONNECTION_USAGE}`;

const PAGE_JOBS = 500;

export const exportCommand = subcommands(USAGE, {
  jobs: async (args) => {
    const { values } = readArguments(args, { ...CONNECTION, prefix: { type: 'string' } }, [], USAGE);
    const connection = connectionOf(values);
    const http = new Http(connection);
    const path = `/v1/clusters/${pathPart(connection.cluster, 'cluster')}/jobs`;
    let written = 0;
    let leftOut = 0;
    let cursor: string | undefined;
    do {
      const query = { limit: PAGE_JOBS, cursor, prefix: values.prefix };
      const page = pageOf(await http.text({ method: 'GET', path, query, repeatable: true }));
      for (const job of page.jobs) {
        const line = exported(job);
        if (line === null) leftOut += 1;
        else {
          written += 1;
          if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain');
        }
      }
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    process.stderr.write(
      `exported ${written} jobs${leftOut === 0 ? '' : `, left out ${leftOut} that are at their end`}\n`,
    );
    return 0;
  },
});

/** A job as it is answered, as a line of a job file; null: it is at its end, and an import would begin it anew. */
export function exported(jobText: string): string | null {
  const { payload, ...view } = readJson(jobText) as Record<string, unknown> & { payload?: string };
  if (view['state'] !== 'enabled' && view['state'] !== 'paused') return null;
  const readOnly: ReadonlySet<string> = new Set(READ_ONLY_FIELDS);
  const form = Object.fromEntries(Object.entries(view).filter(([field]) => !readOnly.has(field)));
  // What was read is the payload's text, not its value.
  return `${JSON.stringify(form).slice(0, -1)},"payload":${payload ?? 'null'}}`;
}

/** The texts of the jobs of a page `{"jobs":[…],"next":…}`: parsing it would lose how payloads are written. */
export function pageOf(page: string): { jobs: string[]; next: string | null } {
  const jobs: string[] = [];
  let depth = 0;
  let start = page.indexOf('[') + 1;
  let at = start;
  for (; at < page.length; at++) {
    const character = page[at];
    if (character === '"') at = endOfString(page, at);
    else if (character === '{' || character === '[') {
      if (depth === 0) start = at;
      depth += 1;
    } else if (character === '}' || character === ']') {
      if (depth === 0) break;
      depth -= 1;
      if (depth === 0) jobs.push(page.slice(start, at + 1));
    }
  }
  const { next } = JSON.parse(`{"jobs":[${page.slice(at)}`) as { next: string | null };
  return { jobs, next };
}

/** Where the string that begins at `at` ends. */
function endOfString(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
  return end;
}
