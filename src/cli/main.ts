#!/usr/bin/env node
import { tellFault } from './fault.ts';
import type { Command } from './options.ts';

/** Commands load their code when they are called, so that a preview does not load a server. */
const COMMANDS: Readonly<Record<string, { summary: string; load: () => Promise<Command> }>> = {
  serve: {
    summary: 'run Carillon: engine and API',
    load: async () => (await import('./serve.ts')).serveCommand,
  },
  preview: {
    summary: 'next occurrences of a schedule',
    load: async () => (await import('./preview.ts')).previewCommand,
  },
  job: {
    summary: 'add, list, show, pause, resume, terminate, delete, fire',
    load: async () => (await import('./job/job.ts')).jobCommand,
  },
  tail: {
    summary: 'triggers as they are published',
    load: async () => (await import('./tail.ts')).tailCommand,
  },
  import: {
    summary: 'jobs of a crontab, Kubernetes CronJobs or a job file',
    load: async () => (await import('./import.ts')).importCommand,
  },
  export: {
    summary: 'all jobs as a job file',
    load: async () => (await import('./export.ts')).exportCommand,
  },
  operation: {
    summary: 'progress and errors of bulk operations',
    load: async () => (await import('./operation.ts')).operationCommand,
  },
  calendar: {
    summary: 'exclusion calendars',
    load: async () => (await import('./calendar.ts')).calendarCommand,
  },
};

const USAGE = `Usage: carillon COMMAND [options]\n\n${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(12)}${summary}`)
  .join('\n')}\n\ncarillon COMMAND --help tells the options of a command.\n`;

async function main([name, ...args]: string[]): Promise<number> {
  if (name === undefined) {
    process.stderr.write(USAGE);
    return 2;
  }
  if (name === '--help' || name === 'help') {
    process.stdout.write(USAGE);
    return 0;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) {
    process.stderr.write(`carillon: there is no command "${name}"\n\n${USAGE}`);
    return 2;
  }
  try {
    return await (await command.load())(args);
  } catch (error) {
    return tellFault(name, error);
  }
}

process.exitCode = await main(process.argv.slice(2));
