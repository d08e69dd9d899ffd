import type { ServerName, Settings } from './settings.ts';

/** How a client reaches each server. */
export interface ServerAddresses {
  readonly mongodb: { readonly uri: string };
  readonly redis: { readonly url: string };
  readonly kafka: { readonly brokers: readonly string[] };
}

/** One process of a server. Its name is that of the server, with a number where the server has several. */
export interface Member {
  readonly name: string;
  /** The ports it listens on; the first is that of clients. */
  readonly ports: readonly number[];
}

/** Where a process works. */
export interface Place {
  /** The server's files as fetched, shared by all instances. */
  readonly dist: string;
  /** Data of this process alone; the folder exists. */
  readonly data: string;
  readonly member: Member;
  /** All processes of the server, this one included. */
  readonly members: readonly Member[];
}

export interface ServerProgram {
  readonly file: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** What there is to know about starting one of the three; all else is the same for them (launch.ts). */
export interface ServerKind<Name extends ServerName> {
  readonly name: Name;
  version(dist: string): string;
  /** The processes with the ports that they wish for; each port is moved up when taken. */
  members(settings: Settings[Name]): readonly Member[];
  /** How long in ms a SIGTERM may take before SIGKILL follows. */
  stopGraceMs(settings: Settings[Name]): number;
  /** Writes what the process reads at its start and says how it is run. */
  command(place: Place, settings: Settings[Name]): Promise<ServerProgram>;
  address(members: readonly Member[], settings: Settings[Name]): ServerAddresses[Name];
  /**
   * Returns when the server does its full work with all its processes, of which it makes one whole if need be; throws while
   * it does not. It may be called again and again.
   */
  ready(members: readonly Member[], settings: Settings[Name]): Promise<void>;
  /** Returns when a process that was started again has its part of the work; throws while it does not. */
  serves(member: Member, settings: Settings[Name]): Promise<void>;
}

/** Names and ports of several processes: `redis-1` at the first port, `redis-2` ten above it, and so on. */
export function numbered(name: string, count: number, ports: readonly number[]): Member[] {
  return Array.from({ length: count }, (_, i) => ({
    name: `${name}-${i + 1}`,
    ports: ports.map((port) => port + 10 * i),
  }));
}
