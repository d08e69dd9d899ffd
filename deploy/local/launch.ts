import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HOST, isFree, type ReservedPort, reservePort } from './ports.ts';
import { isAlive, type ProcessIdentity, spawnServer, stopProcess } from './process.ts';
import type { ServerAddresses, ServerKind } from './server.ts';
import type { ServerName, Settings } from './settings.ts';

/** A started server as it stands in `NAME.json` of its instance, so that any later process can use or stop it. */
export interface ServerRecord<Name extends ServerName = ServerName> {
  readonly name: Name;
  readonly version: string;
  readonly host: string;
  readonly ports: readonly number[];
  readonly address: ServerAddresses[Name];
  readonly settings: Settings[Name];
  readonly process: ProcessIdentity;
  /** From the choice of its ports until it was ready, in milliseconds; null until then. */
  readonly startedInMs: number | null;
}

export interface Launch<Name extends ServerName> {
  /** The files of this server, shared by all instances. */
  readonly dist: string;
  /** The folder of the instance. */
  readonly dir: string;
  readonly settings: Settings[Name];
  readonly dieWithOwner: boolean;
}

const MOST_START_MS = 120_000;
const MOST_PORT_ATTEMPTS = 5;

/** The server ended before it was ready. */
class EndedEarly extends Error {}

/**
 * Starts a server and returns when it is ready; one that already runs is waited for and left as it is.
 * @throws when it ends or is not ready within two minutes, with the last lines of its log; nothing is left running then
 */
export async function launch<Name extends ServerName>(
  kind: ServerKind<Name>,
  options: Launch<Name>,
): Promise<ServerRecord<Name>> {
  const running = readRecord(options.dir, kind.name);
  if (running && isAlive(running.process)) {
    await untilReady(kind, running, options.dir);
    return running;
  }
  for (let attempt = 1; ; attempt += 1) {
    const began = performance.now();
    const reserved = await reserveAll(kind.preferredPorts);
    const ports = reserved.map(({ port }) => port);
    const record = await spawnAndRecord(kind, options, ports);
    try {
      await untilReady(kind, record, options.dir);
      const ready = { ...record, startedInMs: Math.round(performance.now() - began) };
      await writeRecord(options.dir, ready);
      return ready;
    } catch (error) {
      await stopServer(kind, options.dir, 0);
      // A stranger may have taken a port between our look and the server's bind; then the next one is tried.
      const wasTaken = error instanceof EndedEarly && (await Promise.all(ports.map(isFree))).includes(false);
      if (!wasTaken || attempt === MOST_PORT_ATTEMPTS) throw error;
    } finally {
      await Promise.all(reserved.map((port) => port.release()));
    }
  }
}

/** Ends a server of this instance, if it runs, and returns when it is gone. */
export async function stopServer(kind: ServerKind<ServerName>, dir: string, graceMs = kind.stopGraceMs): Promise<void> {
  const record = readRecord(dir, kind.name);
  if (!record) return;
  await stopProcess(record.process, graceMs);
  await rm(recordFile(dir, kind.name), { force: true });
}

/** What `NAME.json` says, whether or not that process still lives. */
export function readRecord<Name extends ServerName>(dir: string, name: Name): ServerRecord<Name> | null {
  const file = recordFile(dir, name);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as ServerRecord<Name>) : null;
}

const recordFile = (dir: string, name: ServerName): string => join(dir, `${name}.json`);

async function writeRecord(dir: string, record: ServerRecord): Promise<void> {
  const file = recordFile(dir, record.name);
  await writeFile(`${file}.part`, `${JSON.stringify(record, null, 2)}\n`);
  await rename(`${file}.part`, file);
}

async function reserveAll(preferred: readonly number[]): Promise<ReservedPort[]> {
  const reserved: ReservedPort[] = [];
  for (const port of preferred) reserved.push(await reservePort(port));
  return reserved;
}

async function spawnAndRecord<Name extends ServerName>(
  kind: ServerKind<Name>,
  { dist, dir, settings, dieWithOwner }: Launch<Name>,
  ports: readonly number[],
): Promise<ServerRecord<Name>> {
  const data = join(dir, kind.name);
  await mkdir(data, { recursive: true });
  const program = await kind.command({ dist, data, ports }, settings);
  const process = await spawnServer({ ...program, cwd: data, logFile: join(dir, `${kind.name}.log`) }, dieWithOwner);
  const address = kind.address(ports, settings);
  const facts = { name: kind.name, version: kind.version(dist), host: HOST, ports, address, settings };
  const record = { ...facts, process, startedInMs: null };
  await writeRecord(dir, record);
  return record;
}

async function untilReady<Name extends ServerName>(
  kind: ServerKind<Name>,
  { ports, settings, process }: ServerRecord<Name>,
  dir: string,
): Promise<void> {
  const until = performance.now() + MOST_START_MS;
  let reason: unknown = 'it does not listen';
  while (performance.now() < until) {
    if (!isAlive(process)) throw new EndedEarly(`${kind.name} ended before it was ready\n${lastLines(dir, kind.name)}`);
    if (await accepts(ports[0] ?? 0)) {
      try {
        return await kind.ready(ports, settings);
      } catch (error) {
        reason = error;
      }
    }
    await sleep(25);
  }
  const seconds = MOST_START_MS / 1000;
  throw new Error(`${kind.name} is not ready after ${seconds} s: ${String(reason)}\n${lastLines(dir, kind.name)}`);
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: HOST, port });
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** The end of what the server said: on its standard output, and in a log of its own beside its data if it has one. */
function lastLines(dir: string, name: ServerName): string {
  return [join(dir, `${name}.log`), join(dir, name, `${name}.log`)]
    .filter((file) => existsSync(file))
    .map((file) => `${file}:\n${readFileSync(file, 'utf8').trimEnd().split('\n').slice(-15).join('\n')}`)
    .join('\n');
}
