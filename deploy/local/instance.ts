import { existsSync, readdirSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { mountBounded, unmountBelow } from './disk.ts';
import { download, isDownloaded } from './download.ts';
import { kafka } from './kafka.ts';
import { isRunning, launch, type MemberRecord, readRecord, type ServerRecord, stopServer } from './launch.ts';
import { type Lock, lock, tryLock } from './locks.ts';
import { mongodb } from './mongodb.ts';
import type { ReservedPort } from './ports.ts';
import { MissingPrerequisites, missingPrerequisites } from './prerequisites.ts';
import { identify } from './process.ts';
import { redis } from './redis.ts';
import type { ServerAddresses, ServerKind } from './server.ts';
import { LARGE, SERVER_NAMES, type ServerName, type Settings, SMALL } from './settings.ts';

/** The ignored folder of the project that holds all files and all instances. */
export const ROOT = join(import.meta.dirname, '..', '..', '.servers');
const MOST_WAIT_MS = 15 * 60_000;
export const KINDS: { readonly [Name in ServerName]: ServerKind<Name> } = { mongodb, redis, kafka };

export interface StartOptions<Name extends ServerName = ServerName> {
  /** Which of the three; all unless given. */
  readonly only?: readonly Name[];
  /** The instance's name, a folder below `.servers/`; `default` unless given. */
  readonly name?: string;
  /** The instance's folder, in place of a name. */
  readonly dir?: string;
  /**
   * An instance for this process alone: a folder of its own, which `stop` removes, and servers that die with this
   * process however it ends (the kernel ties them to the thread that started them: call it from the main thread). The
   * folder that a killed process left is removed by the next temporary start.
   */
  readonly temporary?: boolean;
  /** Sizes for tests instead of those for demos and benchmarks. */
  readonly small?: boolean;
  /** Each process has its data on a disk of its own of this size, in MiB, which can be filled; for root, temporary only. */
  readonly diskMiB?: number;
  /** Settings that differ from those sizes. */
  readonly settings?: { readonly [Kind in ServerName]?: Partial<Settings[Kind]> };
  /** Told one line per step; silent unless given. */
  readonly log?: (line: string) => void;
}

/** Started servers: the address of each, the instance's folder, and how to end them. */
export type Servers<Name extends ServerName = ServerName> = Pick<ServerAddresses, Name> & {
  readonly dir: string;
  /** Ends the servers and waits until they are gone; the data of a temporary instance are removed. */
  stop(): Promise<void>;
};

/**
 * Starts the servers of an instance and returns when each of them is ready. Those that run already are left as they
 * are, so calling it again changes nothing.
 * @throws MissingPrerequisites with everything that the machine lacks
 * @throws Error when a server does not start; those started by this call are stopped again
 */
export async function startServers<Name extends ServerName = ServerName>(
  options: StartOptions<Name> = {},
): Promise<Servers<Name>> {
  const names: readonly ServerName[] = options.only ?? SERVER_NAMES;
  const temporary = options.temporary ?? false;
  if (temporary) await removeLeftovers();
  const dir = temporary ? temporaryFolder() : instanceFolder(options);
  await refuseMissing(names, temporary);
  await using _held = await lockInstance(dir);
  await mkdir(dir, { recursive: true });
  const before = names.filter((name) => runs(dir, name));
  const results = await Promise.allSettled(names.map((name) => startOne(name, dir, options)));
  const reserved = results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) {
    await Promise.all(names.filter((name) => !before.includes(name)).map((name) => stopServer(KINDS[name], dir, 0)));
    await Promise.all(reserved.map((port) => port.release()));
    if (temporary) await removeInstance(dir);
    throw failed.reason;
  }
  reservedFor.set(dir, [...(reservedFor.get(dir) ?? []), ...reserved]);
  await writePorts(dir);
  const addresses = Object.fromEntries(names.map((name) => [name, readRecord(dir, name)?.address]));
  const stop = async (): Promise<void> => {
    await (temporary ? resetServers({ dir }) : stopServers({ dir }));
    await releaseAll(dir);
  };
  return { ...(addresses as Pick<ServerAddresses, Name>), dir, stop };
}

/** Ends all servers of an instance, whoever started them, and keeps their data. */
export async function stopServers(which: Pick<StartOptions, 'name' | 'dir'> = {}): Promise<void> {
  const dir = instanceFolder(which);
  if (!existsSync(dir)) return;
  await using _held = await lockInstance(dir);
  await Promise.all(SERVER_NAMES.map((name) => stopServer(KINDS[name], dir)));
  await Promise.all(portsFiles(dir).map((file) => rm(file, { force: true })));
}

/** Ends all servers of an instance at once and removes its folder; the fetched files stay. */
export async function resetServers(which: Pick<StartOptions, 'name' | 'dir'> = {}): Promise<void> {
  const dir = instanceFolder(which);
  await using _held = await lockInstance(dir);
  await removeInstance(dir);
  await releaseAll(dir);
}

/** One process of a server, with what holds for the whole server. */
export type ServerProcess = Omit<ServerRecord, 'name' | 'members'> & MemberRecord & { readonly server: ServerName };

/** All processes of an instance that were started and not stopped, those that have ended by themselves included. */
export function serverProcesses(which: Pick<StartOptions, 'name' | 'dir'> = {}): ServerProcess[] {
  const dir = instanceFolder(which);
  return SERVER_NAMES.flatMap((server) => {
    const { members = [], name: _, ...facts } = readRecord(dir, server) ?? {};
    return members.map((member) => ({ ...(facts as Omit<ServerRecord, 'name' | 'members'>), ...member, server }));
  });
}

/** The processes of an instance that run now. */
export function runningServers(which: Pick<StartOptions, 'name' | 'dir'> = {}): ServerProcess[] {
  return serverProcesses(which).filter(isRunning);
}

/** The settings with which Carillon finds these servers, by the names of their variables. */
export function carillonSettings(addresses: ServerAddresses): Record<string, string> {
  return {
    CARILLON_MONGODB_URI: addresses.mongodb.uri,
    CARILLON_REDIS_URL: addresses.redis.url,
    CARILLON_KAFKA_BROKERS: addresses.kafka.brokers.join(','),
  };
}

export function instanceFolder({ name, dir }: Pick<StartOptions, 'name' | 'dir'>): string {
  if (dir !== undefined) return resolve(dir);
  const folder = name ?? 'default';
  if (!/^[a-z0-9][a-z0-9-]*$/i.test(folder) || folder === 'dist') {
    throw new Error(`an instance's name is letters, digits and dashes, and not "dist": ${folder}`);
  }
  return join(ROOT, folder);
}

/**
 * Starts a server, and answers its ports, which stay reserved while it is in use: a process that was killed must find its
 * own again.
 */
async function startOne(name: ServerName, dir: string, options: StartOptions): Promise<readonly ReservedPort[]> {
  const log = options.log ?? (() => {});
  const wasRunning = runs(dir, name);
  const settings = { ...(options.small ? SMALL : LARGE)[name], ...options.settings?.[name] };
  const dist = await download(join(ROOT, 'dist'), name, log);
  // The kind and its settings share one name, which the compiler cannot follow through a loop over names.
  const kind = KINDS[name] as ServerKind<ServerName>;
  const launched = { dist, dir, settings: settings as Settings[ServerName], dieWithOwner: options.temporary ?? false };
  if (options.diskMiB !== undefined && options.temporary) {
    for (const member of kind.members(launched.settings)) mountBounded(join(dir, member.name), options.diskMiB);
  }
  const own = (reservedFor.get(dir) ?? []).map(({ port }) => port);
  const { record, reserved } = await launch(kind, launched, own);
  const { members, startedInMs } = record;
  const ports = members.map((member) => member.ports[0]).join(', ');
  log(`${name} ${wasRunning ? 'was running' : `ready in ${(startedInMs ?? 0) / 1000} s`}, port ${ports}`);
  return reserved;
}

/** Ports that this process has reserved, by the folder of their instance: over a stop too, so that a start finds them again. */
const reservedFor = new Map<string, ReservedPort[]>();

async function releaseAll(dir: string): Promise<void> {
  const reserved = reservedFor.get(dir) ?? [];
  reservedFor.delete(dir);
  await Promise.all(reserved.map((port) => port.release()));
}

async function refuseMissing(servers: readonly ServerName[], dieWithOwner: boolean): Promise<void> {
  const present = await Promise.all(servers.map((name) => isDownloaded(join(ROOT, 'dist'), name)));
  const downloaded = servers.filter((_, index) => present[index]);
  const missing = missingPrerequisites({ servers, downloaded, dieWithOwner });
  if (missing.length > 0) throw new MissingPrerequisites(missing);
}

function runs(dir: string, name: ServerName): boolean {
  return readRecord(dir, name)?.members.some(isRunning) ?? false;
}

export const lockInstance = (dir: string): Promise<Lock> => lock(`instance ${dir}`, MOST_WAIT_MS);

async function removeInstance(dir: string): Promise<void> {
  await Promise.all(SERVER_NAMES.map((name) => stopServer(KINDS[name], dir, 0)));
  await Promise.all(portsFiles(dir).map((file) => rm(file, { force: true })));
  unmountBelow(dir);
  await rm(dir, { recursive: true, force: true });
}

/** A temporary folder's name is its owner's pid and start time, which no later process has again. */
const TEMPORARY = /^temporary-(\d+)-(\d+)-\d+$/;
let temporaries = 0;

/**
 * A new folder name for an instance that is of no use after this process. Once it is gone, the next temporary start
 * ends the servers there, if any still run, and removes the folder.
 */
export function temporaryFolder(): string {
  temporaries += 1;
  const owner = identify(process.pid);
  return join(ROOT, `temporary-${process.pid}-${owner?.startTicks ?? 0}-${temporaries}`);
}

async function removeLeftovers(): Promise<void> {
  if (!existsSync(ROOT)) return;
  for (const folder of readdirSync(ROOT)) {
    const [, pid, startTicks] = TEMPORARY.exec(folder) ?? [];
    if (!pid || identify(Number(pid))?.startTicks === startTicks) continue;
    const dir = join(ROOT, folder);
    await using held = await tryLock(`instance ${dir}`);
    if (held) await removeInstance(dir);
  }
}

/** `ports.json` stands in the instance's folder, and that of the default instance beside it as well. */
function portsFiles(dir: string): string[] {
  const own = join(dir, 'ports.json');
  return dir === join(ROOT, 'default') ? [own, join(ROOT, 'ports.json')] : [own];
}

async function writePorts(dir: string): Promise<void> {
  const servers = runningServers({ dir }).map(({ name, host, ports, address, process }) => {
    const [port, controllerPort] = ports;
    return [name, { host, port, ...(controllerPort && { controllerPort }), ...address, pid: process.pid }];
  });
  const text = `${JSON.stringify(Object.fromEntries(servers), null, 2)}\n`;
  await Promise.all(portsFiles(dir).map((file) => writeFile(file, text)));
}
