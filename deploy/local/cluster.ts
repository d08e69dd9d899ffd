/**
 * Carillon in cluster mode on this machine: real servers, and processes of each role. `npm run cluster` starts one of each
 * and stays up to be played with; demos, tests and benchmarks start as many as they need.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { carillonSettings, type Servers, type StartOptions, startServers } from './instance.ts';
import { isAlive, type ProcessIdentity, spawnServer, stopProcess } from './process.ts';

export type Role = 'api' | 'manager' | 'worker';

export interface ClusterOptions {
  servers: Pick<StartOptions, 'name' | 'dir' | 'temporary' | 'small' | 'settings'>;
  /** How many processes of each role. */
  roles: Readonly<Record<Role, number>>;
  /** Port of the first API process; 0 takes a free one. */
  port: number;
  /** Further settings, as `CARILLON_…` variables. */
  env?: Readonly<Record<string, string>>;
  log?: (line: string) => void;
}

export interface ClusterProcess {
  role: Role;
  identity: ProcessIdentity;
  logFile: string;
  /** The API's address; null for the others. */
  url: string | null;
}

export interface Cluster {
  servers: Servers;
  /** All that were started, those that have ended since included. */
  processes: readonly ClusterProcess[];
  /** Address of the first API process. */
  url: string;
  /** One more process of a role, with settings of its own as `CARILLON_…` variables; it is ready when this answers. */
  start(role: Role, env?: Readonly<Record<string, string>>): Promise<ClusterProcess>;
  stop(): Promise<void>;
}

const root = join(import.meta.dirname, '..', '..');
const START_MS = 60_000;
const STOP_MS = 30_000;
const LOOK_EVERY_MS = 25;

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const log = options.log ?? (() => {});
  const servers = await startServers({ ...options.servers, log });
  const processes: ClusterProcess[] = [];
  const stop = async (): Promise<void> => {
    await stopRoles(processes);
    await servers.stop();
  };
  const started: Record<Role, number> = { api: 0, manager: 0, worker: 0 };
  const start: Cluster['start'] = async (role, env = {}) => {
    const one = await startRole(servers, options, role, started[role]++, env);
    processes.push(one);
    return one;
  };
  try {
    // The first process makes topics and indexes, so the others do not wait for each other.
    for (const role of ['manager', 'worker', 'api'] as const) {
      await Promise.all(Array.from({ length: options.roles[role] }, () => start(role)));
      log(`${options.roles[role]} ${role} ready`);
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { servers, processes, url: processes.find(({ url }) => url !== null)?.url ?? '', start, stop };
}

async function startRole(
  servers: Servers,
  options: ClusterOptions,
  role: Role,
  index: number,
  env: Readonly<Record<string, string>>,
): Promise<ClusterProcess> {
  const name = `${role}-${index}`;
  const folder = join(servers.dir, 'carillon');
  mkdirSync(folder, { recursive: true });
  const logFile = join(folder, `${name}.log`);
  const command = {
    file: process.execPath,
    args: [join(root, 'src', 'cli', 'main.ts'), 'serve'],
    cwd: folder,
    logFile,
    env: {
      CARILLON_MODE: 'cluster',
      CARILLON_ROLE: role,
      ...carillonSettings(servers),
      CARILLON_LISTEN_PORT: String(role === 'api' && index === 0 ? options.port : 0),
      ...options.env,
      ...env,
    },
  };
  const identity = await spawnServer(command, options.servers.temporary ?? false);
  const ready = await untilReady(identity, logFile);
  const url = role === 'api' ? `http://${ready.host}:${ready.port}` : null;
  return { role, identity, logFile, url };
}

/** The line with which `carillon serve` says that it is ready. */
async function untilReady(identity: ProcessIdentity, logFile: string): Promise<{ host?: string; port?: number }> {
  const from = performance.now();
  while (performance.now() - from < START_MS) {
    const line = readFileSync(logFile, 'utf8')
      .split('\n')
      .find((one) => one.includes('"carillon is ready"'));
    if (line !== undefined) return JSON.parse(line);
    if (!isAlive(identity)) throw new Error(`a process ended before it was ready:\n${tail(logFile)}`);
    await sleep(LOOK_EVERY_MS);
  }
  await stopProcess(identity, 0);
  throw new Error(`a process was not ready within ${START_MS / 1000} s:\n${tail(logFile)}`);
}

/** The last 4 KiB of a log. */
function tail(logFile: string): string {
  return readFileSync(logFile).subarray(-4096).toString('utf8');
}

/** Ends processes role by role, in the order that leaves nothing on the way: no new changes, then no firing, then no leader. */
async function stopRoles(processes: readonly ClusterProcess[]): Promise<void> {
  for (const role of ['api', 'worker', 'manager'] as const) {
    const these = processes.filter((one) => one.role === role);
    await Promise.all(these.map(({ identity }) => stopProcess(identity, STOP_MS)));
  }
}

/** Runs until a signal. One that comes while the cluster starts is kept until there is something to stop. */
async function main(): Promise<void> {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  process.once('SIGINT', () => end());
  process.once('SIGTERM', () => end());
  const awake = setInterval(() => {}, 60_000);
  try {
    const cluster = await startCluster({
      servers: {},
      roles: { manager: 1, worker: 1, api: 1 },
      port: 7171,
      log: (line) => console.log(line),
    });
    console.log(
      `API: ${cluster.url}   Kafka: ${cluster.servers.kafka.brokers.join(',')}   logs: ${cluster.servers.dir}/carillon`,
    );
    console.log(
      `try: npm run carillon -- job add hello --every 1000   and: npm run carillon -- tail   Ctrl-C stops everything`,
    );
    await ended;
    await cluster.stop();
    console.log('everything is stopped');
  } finally {
    clearInterval(awake);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main().catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  });
}
