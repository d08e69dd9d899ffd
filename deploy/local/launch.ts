import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HOST, isFree, type ReservedPort, reservePort } from './ports.ts';
import { isAlive, type ProcessIdentity, spawnServer, stopProcess } from './process.ts';
import type { Member, ServerAddresses, ServerKind } from './server.ts';
import type { ServerName, Settings } from './settings.ts';

export interface MemberRecord extends Member {
  readonly process: ProcessIdentity;
}

/** A started server as it stands in `NAME.json` of its instance, so that any later process can use or stop it. */
export interface ServerRecord<Name extends ServerName = ServerName> {
  readonly name: Name;
  readonly version: string;
  readonly host: string;
  readonly address: ServerAddresses[Name];
  readonly settings: Settings[Name];
  readonly dieWithOwner: boolean;
  /** From the choice of its ports until it was ready, in milliseconds; null until then. */
  readonly startedInMs: number | null;
  readonly members: readonly MemberRecord[];
}

export interface Launch<Name extends ServerName> {
  /** The files of this server, shared by all instances. */
  readonly dist: string;
  /** The folder of the instance. */
  readonly dir: string;
  readonly settings: Settings[Name];
  readonly dieWithOwner: boolean;
}

/** A server that is ready, with its ports, which no other start on this machine takes until they are released. */
export interface Launched<Name extends ServerName> {
  readonly record: ServerRecord<Name>;
  readonly reserved: readonly ReservedPort[];
}

const MOST_START_MS = 120_000;
const MOST_PORT_ATTEMPTS = 5;

/** The server ended before it was ready. */
class EndedEarly extends Error {}

/**
 * Starts a server and returns when it is ready; what already runs is waited for and left as it is. It keeps its ports over a
 * stop; one that is alone takes others when a stranger has them, several know each other by theirs.
 * `own` are ports that the caller has reserved already.
 * @throws when it ends or is not ready within two minutes, with the last lines of its log; nothing is left running then
 */
export async function launch<Name extends ServerName>(
  kind: ServerKind<Name>,
  options: Launch<Name>,
  own: readonly number[] = [],
): Promise<Launched<Name>> {
  const former = readRecord(options.dir, kind.name);
  const wished = kind.members(options.settings);
  if (former !== null) refuseOtherMembers(former, wished);
  if (former?.members.every(isRunning)) {
    await untilReady(former, options.dir, () => kind.ready(former.members, former.settings));
    return { record: former, reserved: [] };
  }
  const kept = former !== null && wished.length > 1 ? former.members : null;
  for (let attempt = 1; ; attempt += 1) {
    const began = performance.now();
    const reserved: ReservedPort[] = [];
    let members: readonly Member[] = [];
    try {
      // One process finds its data on any port, but whoever knew it looks for it where it was.
      members = kept ?? (await withFreePorts(former?.members ?? wished, reserved, own));
      const record = await spawnAll(kind, options, members, former);
      await untilReady(record, options.dir, () => kind.ready(members, options.settings));
      const ready = { ...record, startedInMs: Math.round(performance.now() - began) };
      await writeRecord(options.dir, ready);
      return { record: ready, reserved };
    } catch (error) {
      await stopServer(kind, options.dir, 0);
      await Promise.all(reserved.map((port) => port.release()));
      // A stranger may have taken a port between our look and the server's bind; then the next one is tried.
      const ports = members.flatMap((member) => member.ports);
      const wasTaken = error instanceof EndedEarly && (await Promise.all(ports.map(isFree))).includes(false);
      if (kept !== null || !wasTaken || attempt === MOST_PORT_ATTEMPTS) throw error;
    }
  }
}

/** Starts one process of a server again, on its former ports, and returns when it has its part of the work. */
export async function launchMember<Name extends ServerName>(
  kind: ServerKind<Name>,
  dist: string,
  dir: string,
  name: string,
): Promise<void> {
  const record = readRecord(dir, kind.name);
  const member = record?.members.find((one) => one.name === name);
  if (record === null || member === undefined || isRunning(member)) return;
  const { settings, dieWithOwner } = record;
  const started = {
    ...member,
    process: await spawnOne(kind, { dist, dir, settings, dieWithOwner }, member, record.members),
  };
  await writeRecord(dir, { ...record, members: record.members.map((one) => (one === member ? started : one)) });
  const alone = { ...record, members: [started] };
  await untilReady(alone, dir, () => kind.serves(started, settings));
}

/** Ends a server of this instance, if it runs, and returns when it is gone. */
export async function stopServer(kind: ServerKind<ServerName>, dir: string, graceMs?: number): Promise<void> {
  const record = readRecord(dir, kind.name);
  if (!record) return;
  const patienceMs = graceMs ?? kind.stopGraceMs(record.settings);
  await Promise.all(record.members.map(({ process }) => stopProcess(process, patienceMs)));
}

/** What `NAME.json` says, whether or not its processes still live. */
export function readRecord<Name extends ServerName>(dir: string, name: Name): ServerRecord<Name> | null {
  const file = recordFile(dir, name);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as ServerRecord<Name>) : null;
}

export const isRunning = ({ process }: MemberRecord): boolean => isAlive(process);

const recordFile = (dir: string, name: ServerName): string => join(dir, `${name}.json`);

async function writeRecord(dir: string, record: ServerRecord): Promise<void> {
  const file = recordFile(dir, record.name);
  await writeFile(`${file}.part`, `${JSON.stringify(record, null, 2)}\n`);
  await rename(`${file}.part`, file);
}

function refuseOtherMembers({ name, members }: ServerRecord, wished: readonly Member[]): void {
  const [has, wants] = [members, wished].map((some) => some.map((one) => one.name).join(', '));
  if (has === wants) return;
  throw new Error(`this instance has ${name} as ${has}, not as ${wants}: reset it first, or take another name`);
}

async function withFreePorts(
  wished: readonly Member[],
  reserved: ReservedPort[],
  own: readonly number[],
): Promise<Member[]> {
  const members: Member[] = [];
  for (const { name, ports } of wished) {
    const chosen: number[] = [];
    for (const port of ports) {
      if (own.includes(port) && (await isFree(port))) {
        chosen.push(port);
        continue;
      }
      const one = await reservePort(port);
      reserved.push(one);
      chosen.push(one.port);
    }
    members.push({ name, ports: chosen });
  }
  return members;
}

/** Starts those processes that do not run. */
async function spawnAll<Name extends ServerName>(
  kind: ServerKind<Name>,
  launch: Launch<Name>,
  members: readonly Member[],
  former: ServerRecord<Name> | null,
): Promise<ServerRecord<Name>> {
  const { dist, dir, settings, dieWithOwner } = launch;
  const address = kind.address(members, settings);
  const facts = { name: kind.name, version: kind.version(dist), host: HOST, address, settings, dieWithOwner };
  const started: MemberRecord[] = [];
  // One after the other, and each is written down before the next: whatever ends this leaves nothing that cannot be stopped.
  for (const member of members) {
    const runs = former?.members.find((one) => one.name === member.name && isRunning(one));
    const process = runs?.process ?? (await spawnOne(kind, launch, member, members));
    started.push({ name: member.name, ports: member.ports, process });
    await writeRecord(dir, { ...facts, startedInMs: null, members: started });
  }
  return { ...facts, startedInMs: null, members: started };
}

async function spawnOne<Name extends ServerName>(
  kind: ServerKind<Name>,
  { dist, dir, settings, dieWithOwner }: Launch<Name>,
  member: Member,
  members: readonly Member[],
): Promise<ProcessIdentity> {
  const data = join(dir, member.name);
  await mkdir(data, { recursive: true });
  const program = await kind.command({ dist, data, member, members }, settings);
  return await spawnServer({ ...program, cwd: data, logFile: join(dir, `${member.name}.log`) }, dieWithOwner);
}

async function untilReady(record: ServerRecord, dir: string, ready: () => Promise<void>): Promise<void> {
  const { members } = record;
  const until = performance.now() + MOST_START_MS;
  let reason: unknown = 'it does not listen';
  while (performance.now() < until) {
    const ended = members.find((member) => !isRunning(member));
    if (ended) throw new EndedEarly(`${ended.name} ended before it was ready\n${lastLines(dir, record.name, ended)}`);
    if ((await Promise.all(members.map(({ ports }) => accepts(ports[0] ?? 0)))).every(Boolean)) {
      try {
        return await ready();
      } catch (error) {
        reason = error;
      }
    }
    await sleep(25);
  }
  const said = members.map((member) => lastLines(dir, record.name, member)).join('\n');
  throw new Error(`${record.name} is not ready after ${MOST_START_MS / 1000} s: ${String(reason)}\n${said}`);
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

/** The end of what a process said: on its standard output, and in a log of its own beside its data if it has one. */
function lastLines(dir: string, server: ServerName, { name }: Member): string {
  return [join(dir, `${name}.log`), join(dir, name, `${server}.log`)]
    .filter((file) => existsSync(file))
    .map((file) => `${file}:\n${readFileSync(file, 'utf8').trimEnd().split('\n').slice(-15).join('\n')}`)
    .join('\n');
}
