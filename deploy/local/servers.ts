import { parseArgs } from 'node:util';
import { instanceFolder, resetServers, runningServers, startServers, stopServers } from './instance.ts';
import { MissingPrerequisites } from './prerequisites.ts';
import { SERVER_NAMES, type ServerName } from './settings.ts';

const USAGE = `npm run servers -- start|stop|status|reset [options]

  start   start MongoDB, Redis and Kafka on 127.0.0.1 and wait until each is ready
  stop    end them and keep their data
  status  what runs, where
  reset   end them and remove their data

  --name NAME         an instance with a folder, ports and data of its own (default: default)
  --dir DIR           its folder, in place of a name
  --only a,b          start these of mongodb, redis, kafka
  --small             sizes for tests
  --mongodb-cache GIB WiredTiger's cache, from 0.25
  --redis-memory MIB  the most that Redis holds
  --kafka-heap MIB    the heap of Kafka's JVM
  --json              print the result as JSON (start, status)
`;

const OPTIONS = {
  name: { type: 'string' },
  dir: { type: 'string' },
  only: { type: 'string' },
  small: { type: 'boolean' },
  'mongodb-cache': { type: 'string' },
  'redis-memory': { type: 'string' },
  'kafka-heap': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parse>['values'];

/** A mistake in how the command was called: told with the usage, exit code 2. */
class UsageError extends Error {}

function parse(): ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>> {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

async function main(): Promise<void> {
  const { values, positionals } = parse();
  const [command, ...rest] = positionals;
  if (values.help) return print(USAGE);
  if (command === undefined || rest.length > 0) throw new UsageError('give one command');
  const which = { ...(values.name && { name: values.name }), ...(values.dir && { dir: values.dir }) };
  switch (command) {
    case 'start':
      return start(which, values);
    case 'stop':
      return stopServers(which);
    case 'status':
      return status(which, values.json ?? false);
    case 'reset':
      return resetServers(which);
    default:
      throw new UsageError(`there is no command ${command}`);
  }
}

interface Which {
  readonly name?: string;
  readonly dir?: string;
}

async function start(which: Which, values: Values): Promise<void> {
  const [cacheGB, maxMemoryMB, heapMB] = (['mongodb-cache', 'redis-memory', 'kafka-heap'] as const).map((option) =>
    positive(option, values[option]),
  );
  await startServers({
    ...which,
    ...(values.only !== undefined && { only: serverNames(values.only) }),
    small: values.small ?? false,
    settings: {
      mongodb: cacheGB ? { cacheGB } : {},
      redis: maxMemoryMB ? { maxMemoryMB } : {},
      kafka: heapMB ? { heapMB } : {},
    },
    log: (line) => process.stderr.write(`${line}\n`),
  });
  status(which, values.json ?? false);
}

function status(which: Which, json: boolean): void {
  if (json) printJson(which);
  else printTable(which);
}

function printJson(which: Which): void {
  const servers = runningServers(which).map(
    ({ name, version, host, ports, address, process: { pid }, startedInMs }) => [
      name,
      { version, host, ports, ...address, pid, startedInMs },
    ],
  );
  print(`${JSON.stringify({ dir: instanceFolder(which), servers: Object.fromEntries(servers) }, null, 2)}\n`);
}

function printTable(which: Which): void {
  const running = runningServers(which);
  for (const name of SERVER_NAMES) {
    const server = running.find((one) => one.name === name);
    const address = Object.values(server?.address ?? {})
      .flat()
      .join(',');
    const line = server ? `${server.version.padEnd(7)} pid ${server.process.pid}  ${address}` : 'not running';
    print(`${name.padEnd(8)} ${line}\n`);
  }
  print(`folder   ${instanceFolder(which)}\n`);
}

function serverNames(list: string): ServerName[] {
  return list.split(',').map((name) => {
    const found = SERVER_NAMES.find((known) => known === name.trim());
    if (!found) throw new UsageError(`--only takes ${SERVER_NAMES.join(', ')}, not "${name}"`);
    return found;
  });
}

function positive(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new UsageError(`--${option} takes a number above 0, not "${text}"`);
  return value;
}

function print(text: string): void {
  process.stdout.write(text);
}

try {
  await main();
} catch (error) {
  if (error instanceof UsageError) console.error(`${error.message}\n\n${USAGE}`);
  else if (error instanceof MissingPrerequisites) console.error(error.message);
  else console.error(error instanceof Error ? error.message : error);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
