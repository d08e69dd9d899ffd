import type { JobView } from '../../core/form/job-form.ts';
import type { JobState } from '../../core/job.ts';
import type { WriteOptions } from '../../sdk/client.ts';
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
} from '../options.ts';
import { addJob } from './add.ts';

const USAGE = `Usage: carillon job ACTION [KEY] [options]

  add KEY         register a job (carillon job add --help)
  list            jobs by key
  show KEY        one job
  pause KEY       stop firing until it is resumed
  resume KEY      fire again; what passed goes by the misfire policy
  terminate KEY   end it for ever and keep it
  delete KEY      remove it
  fire KEY        one run at once, beside the schedule

  --if-version N  pause, resume, terminate, delete: only if the job has this version
  --request KEY   fire: the same request never makes a second run
  --prefix TEXT   list: keys that begin with this
  --state STATE   list: enabled, paused, finished, terminated or error
  --limit N       list: at most N (default all)
${CONNECTION_USAGE}`;

const text = { type: 'string' } as const;

/** Everything about single jobs. */
export const jobCommand = subcommands(USAGE, {
  add: addJob,
  list: listJobs,
  show: async (args) => {
    const { values, words } = readArguments(args, CONNECTION, ['KEY'], USAGE);
    // All of a job is JSON for people as well: a table would have to leave things out.
    printJson(await clientOf(values).jobs.get(words[0]!));
    return 0;
  },
  pause: changeJob('pause'),
  resume: changeJob('resume'),
  terminate: changeJob('terminate'),
  delete: async (args) => {
    const { values, key, options } = readChange(args);
    await clientOf(values).jobs.delete(key, options);
    if (values.json) printJson({ result: 'deleted', key });
    else print(`deleted ${visible(key)}`);
    return 0;
  },
  fire: async (args) => {
    const { values, words } = readArguments(args, { ...CONNECTION, request: text }, ['KEY'], USAGE);
    const { request } = values;
    const run = await clientOf(values).jobs.fire(words[0]!, request === undefined ? {} : { requestKey: request });
    if (values.json) printJson(run);
    else print(`fired ${visible(run.key)}, execution ${run.id}`);
    return 0;
  },
});

function changeJob(action: 'pause' | 'resume' | 'terminate') {
  return async (args: string[]): Promise<number> => {
    const { values, key, options } = readChange(args);
    const job = await clientOf(values).jobs[action](key, options);
    if (values.json) printJson(job);
    else print(`${job.result} ${visible(job.key)}: ${job.state}, version ${job.version}`);
    return 0;
  };
}

function readChange(args: string[]) {
  const { values, words } = readArguments(args, { ...CONNECTION, 'if-version': text }, ['KEY'], USAGE);
  const version = values['if-version'];
  const options: WriteOptions =
    version === undefined ? {} : { ifVersion: wholeOf(version, '--if-version', 1, Number.MAX_SAFE_INTEGER) };
  return { values, key: words[0]!, options };
}

/** Jobs that are held back to make the columns of a table as wide as they must be. */
const TABLE_ROWS = 500;

async function listJobs(args: string[]): Promise<number> {
  const { values } = readArguments(args, { ...CONNECTION, prefix: text, state: text, limit: text }, [], USAGE);
  const limit = values.limit === undefined ? Infinity : wholeOf(values.limit, '--limit', 1, Number.MAX_SAFE_INTEGER);
  const query = {
    pageSize: Math.min(500, limit),
    ...(values.prefix !== undefined && { prefix: values.prefix }),
    ...(values.state !== undefined && { state: values.state as JobState }),
  };
  const out = values.json ? jsonArray() : table();
  let count = 0;
  for await (const job of clientOf(values).jobs.list(query)) {
    out.add(job);
    count += 1;
    if (count === limit) break;
  }
  out.end(count);
  return 0;
}

/** A JSON array of any length, written as it comes. */
function jsonArray() {
  let open = false;
  return {
    add(job: JobView) {
      process.stdout.write(`${open ? ',\n' : '[\n'}${JSON.stringify(job)}`);
      open = true;
    },
    end: () => print(open ? '\n]' : '[]'),
  };
}

function table() {
  let rows: string[][] = [];
  const flush = () => {
    if (rows.length > 0) printTable(['KEY', 'STATE', 'VERSION', 'NEXT', 'SCHEDULE'], rows);
    rows = [];
  };
  return {
    add(job: JobView) {
      const { key, state, version, nextFireAt } = job;
      rows.push([visible(key), state, String(version), nextFireAt ?? '-', visible(scheduleText(job))]);
      if (rows.length === TABLE_ROWS) flush();
    },
    end(count: number) {
      flush();
      if (count === 0) print('no jobs');
    },
  };
}

function scheduleText({ schedule }: JobView): string {
  switch (schedule.kind) {
    case 'cron':
      return `${schedule.expression}${schedule.zone === undefined ? '' : ` ${schedule.zone}`}`;
    case 'rate':
      return `every ${schedule.everyMs} ms`;
    case 'once':
      return `at ${schedule.at}`;
    case 'delay':
      return `after ${schedule.delayMs} ms`;
  }
}
