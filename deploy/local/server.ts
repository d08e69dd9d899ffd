import type { ServerName, Settings } from './settings.ts';

/** How a client reaches each server. */
export interface ServerAddresses {
  readonly mongodb: { readonly uri: string };
  readonly redis: { readonly url: string };
  readonly kafka: { readonly brokers: readonly string[] };
}

/** Where a server works. */
export interface Place {
  /** Its files as fetched, shared by all instances. */
  readonly dist: string;
  /** Its data, of this instance alone; the folder exists. */
  readonly data: string;
  readonly ports: readonly number[];
}

export interface ServerProgram {
  readonly file: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** What there is to know about starting one of the three; all else is the same for them (launch.ts). */
export interface ServerKind<Name extends ServerName> {
  readonly name: Name;
  /** The ports it listens on, as wished; the first is that of clients. Each is moved up when taken. */
  readonly preferredPorts: readonly number[];
  /** How long in ms a SIGTERM may take before SIGKILL follows. */
  readonly stopGraceMs: number;
  version(dist: string): string;
  /** Writes what the server reads at its start and says how it is run. */
  command(place: Place, settings: Settings[Name]): Promise<ServerProgram>;
  address(ports: readonly number[], settings: Settings[Name]): ServerAddresses[Name];
  /** Returns when the server does its full work; throws while it does not. It may be called again and again. */
  ready(ports: readonly number[], settings: Settings[Name]): Promise<void>;
}
