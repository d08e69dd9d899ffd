import { parseArgs } from 'node:util';
import {
  carillonSettings,
  instanceFolder,
  resetServers,
  runningServers,
  serverProcesses,
  startServers,
  stopServers,
} from './instance.ts';
import { freezeMember, killMember, startMember, thawMember } from './members.ts';
import { MissingPrerequisites } from './prerequisites.ts';
import { isAlive, isFrozen } from './process.ts';
import type { ServerAddresses } from './server.ts';
import { REDIS_TOPOLOGIES, SERVER_NAMES, type ServerName } from './settings.ts';

const USAGE = `npm run servers -- start|stop|status|reset [options]
       npm run servers -- start|kill|freeze|thaw PROCESS [options]

  start   start MongoDB, Redis and Kafka on 127.0.0.1 and wait until each is ready
  stop    end them and keep their data
  status  what runs, where
  reset   end them and remove their data
  kill    end one process (redis-2, as status names it) with SIGKILL; start PROCESS brings it back with its data
  freeze  stop one process with SIGSTOP; thaw lets it go on

  --name NAME         an instance with a folder, ports and data of its own (default: default)
  --dir DIR           its folder, in place of a name
  --mongodb 1|3       processes of the replica set
  --redis KIND        single, sentinel (primary, replica, 3 Sentinels) or cluster (3 primaries, 3 replicas)
  --kafka 1|3         brokers
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
  mongodb: { type: 'string' },
  redis: { type: 'string' },
  kafka: { type: 'string' },
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
  const [command, member, ...rest] = positionals;
  if (values.help) return print(USAGE);
  if (command === undefined || rest.length > 0) throw new UsageError('give one command');
  const which = { ...(values.name && { name: values.name }), ...(values.dir && { dir: values.dir }) };
  if (member !== undefined) return await one(which, command, member);
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

/** A command for one process. */
async function one(which: Which, command: string, member: string): Promise<void> {
  switch (command) {
    case 'start':
      return startMember(which, member);
    case 'kill':
      return killMember(which, member);
    case 'freeze':
      return freezeMember(which, member);
    case 'thaw':
      return thawMember(which, member);
    default:
      throw new UsageError(`${command} takes no process`);
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
  const members = oneOf('mongodb', values.mongodb, [1, 3]);
  const topology = oneOf('redis', values.redis, REDIS_TOPOLOGIES);
  const brokers = oneOf('kafka', values.kafka, [1, 3]);
  await startServers({
    ...which,
    ...(values.only !== undefined && { only: serverNames(values.only) }),
    small: values.small ?? false,
    settings: {
      mongodb: { ...(cacheGB && { cacheGB }), ...(members && { members }) },
      redis: { ...(maxMemoryMB && { maxMemoryMB }), ...(topology && { topology }) },
      kafka: { ...(heapMB && { heapMB }), ...(brokers && { brokers }) },
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
  const processes = serverProcesses(which);
  const known = new Set<string>(processes.map(({ server }) => server));
  for (const name of SERVER_NAMES.filter((one) => !known.has(one))) print(`${name.padEnd(11)} not running\n`);
  for (const { name, version, process, host, ports } of processes) {
    const state = isFrozen(process) ? 'frozen' : isAlive(process) ? 'running' : 'not running';
    print(
      `${name.padEnd(11)} ${version.padEnd(7)} pid ${String(process.pid).padEnd(8)} ${host}:${ports[0]}  ${state}\n`,
    );
  }
  print(`folder      ${instanceFolder(which)}\n`);
  const addresses = Object.fromEntries(processes.map(({ server, address }) => [server, address]));
  if (SERVER_NAMES.some((name) => !(name in addresses))) return;
  print('settings of Carillon, with CARILLON_MODE=cluster:\n');
  const settings = Object.entries(carillonSettings(addresses as unknown as ServerAddresses));
  for (const [name, value] of settings) print(`  ${name}='${value}'\n`);
}

function oneOf<T extends string | number>(
  option: string,
  text: string | undefined,
  values: readonly T[],
): T | undefined {
  const value = values.find((one) => String(one) === text);
  if (text === undefined || value !== undefined) return value;
  throw new UsageError(`--${option} takes ${values.join(', ')}, not "${text}"`);
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
