import { CarillonError } from '../core/errors.ts';

/** A command takes the arguments behind its name and answers the exit code: 0 done, 1 failed, 2 wrong usage or input. */
type Command = (args: string[]) => number | Promise<number>;

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
};

const USAGE = `Usage: carillon COMMAND [options]\n\n${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(12)}${summary}`)
  .join('\n')}\n\ncarillon COMMAND --help tells the options of a command.\n`;

async function main([name, ...args]: string[]): Promise<number> {
  if (name === undefined || name === '--help' || name === 'help') {
    process.stdout.write(USAGE);
    return name === undefined ? 2 : 0;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) {
    process.stderr.write(`carillon: there is no command "${name}"\n\n${USAGE}`);
    return 2;
  }
  try {
    return await (await command.load())(args);
  } catch (error) {
    if (!(error instanceof CarillonError)) throw error;
    process.stderr.write(`carillon ${name}: ${error.message}\n`);
    return error.retryable ? 1 : 2;
  }
}

process.exitCode = await main(process.argv.slice(2));
