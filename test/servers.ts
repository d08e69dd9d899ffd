/**
 * Real servers for the tests that need them: vitest calls this once for each project that asks for it, and the first
 * call starts one instance for the whole run. A test takes the addresses by `inject('servers')`.
 */
import { mkdirSync } from 'node:fs';
import type { TestProject } from 'vitest/node';
import { type Servers, startServers } from '../deploy/local/instance.ts';

/** Addresses of the servers of this run. */
export interface TestServers {
  /** MongoDB's connection string, a replica set of one. */
  readonly mongodb: string;
  /** The URL of Redis. */
  readonly redis: string;
  /** Kafka's brokers as `host:port`. */
  readonly kafka: readonly string[];
}

declare module 'vitest' {
  export interface ProvidedContext {
    /** Null only when CARILLON_TEST_SERVERS=none asks for a run without servers; such tests are then skipped. */
    servers: TestServers | null;
  }
}

interface Shared {
  readonly starting: Promise<Servers>;
  users: number;
}

/** Each project loads this file for itself, so what they share stands on the global object. */
const holder = globalThis as { [key: symbol]: Shared | undefined };
const SHARED = Symbol.for('carillon.test-servers');

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Data folders of tests lie there as well, with or without servers.
  mkdirSync('.servers', { recursive: true });
  if (process.env['CARILLON_TEST_SERVERS'] === 'none') {
    project.provide('servers', null);
    return async () => {};
  }
  holder[SHARED] ??= { starting: startServers({ temporary: true, small: true }), users: 0 };
  const shared = holder[SHARED];
  shared.users += 1;
  const { mongodb, redis, kafka, stop } = await shared.starting;
  project.provide('servers', { mongodb: mongodb.uri, redis: redis.url, kafka: [...kafka.brokers] });
  return async () => {
    shared.users -= 1;
    if (shared.users > 0) return;
    holder[SHARED] = undefined;
    await stop();
  };
}
