import { Socket } from 'node:net';
import { Cluster, Redis } from 'ioredis';
import { CarillonError, carillonError } from '../../core/errors.ts';
import type { Signals } from '../../ports/signals.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { TriggerStore } from '../../ports/trigger-store.ts';
import { type RedisAddress, redisAddress } from './address.ts';
import { redisError } from './errors.ts';
import type { Script } from './script.ts';
import { RedisSignals } from './signals.ts';
import { type Commands, redisTriggerStore } from './trigger-store.ts';

export type RedisSettings = RedisAddress & {
  /** Parts installations that share one Redis; part of every key. */
  prefix: string;
  /** A call that Redis did not answer within this time fails, in ms; default 5,000. */
  timeoutMs?: number;
};

export interface RedisTriggerStore extends TriggerStore {
  /**
   * How many connections were made. Another number than before means that Redis may be another server, or an older copy of
   * itself: what it holds must be compared again.
   */
  connections(): number;
  signals: Signals;
}

/** Calls on the way at one time; each holds at most one piece of `add` (4 MiB), or a scan's answer. */
const CALLS_IN_FLIGHT = 1_024;
/** For so long after a new connection every change reaches its owner, in ms: by then owners have compared their shards. */
const DOUBT_MS = 30_000;
const RETRY_MS = 50;
const RETRY_MAX_MS = 1_000;

/**
 * Connects and checks the server.
 * @throws `setup-refused` for a Redis that is too old, may evict keys, or refuses the user; `unavailable` where none answers
 */
export async function connectRedis(settings: RedisSettings, telemetry: Telemetry): Promise<RedisTriggerStore> {
  if (!/^[a-zA-Z0-9._-]+$/.test(settings.prefix)) {
    throw carillonError(
      'setup-refused',
      `the Redis prefix "${settings.prefix}" must be letters, digits, ".", "_" or "-"`,
    );
  }
  const client = clientOf(settings);
  let connections = 0;
  let opened = false;
  let doubtedUntilMs = Number.NEGATIVE_INFINITY;
  let lastFailure: Error | null = null;
  const connected = (): void => {
    connections += 1;
    if (opened) doubtedUntilMs = performance.now() + DOUBT_MS;
    telemetry.count('redis_connections_total');
  };
  // A cluster has a connection for each node, which comes and goes by itself.
  if (client instanceof Cluster) client.on('+node', (node: Redis) => node.on('ready', connected));
  else client.on('ready', connected);
  // ioredis goes on by itself; what failed is told to whoever called.
  client.on('error', (error: Error) => {
    lastFailure = error;
    telemetry.count('redis_connection_errors_total');
    telemetry.event('warn', 'the connection to Redis failed', { error: error.message });
  });
  const commands = commandsOf(client, telemetry);
  try {
    await client.connect();
    for (const node of client instanceof Cluster ? client.nodes('master') : [client]) {
      refuseUnfit(await node.info());
    }
  } catch (error) {
    client.disconnect();
    // That the connection was closed says nothing; why it was is what the client met last.
    throw redisError(error instanceof CarillonError ? error : (lastFailure ?? error));
  }
  opened = true;
  const signals = new RedisSignals(client, () => clientOf(settings), settings.prefix, telemetry);
  return {
    ...redisTriggerStore(commands, settings.prefix, telemetry, () => performance.now() < doubtedUntilMs),
    connections: () => connections,
    signals,
    async timeMs(): Promise<number> {
      const [seconds, micros] = (await commands.call('time', [])) as [Buffer, Buffer];
      return Number(seconds.toString('latin1')) * 1_000 + Math.floor(Number(micros.toString('latin1')) / 1_000);
    },
    async close(): Promise<void> {
      signals.close();
      client.disconnect();
    },
  };
}

/**
 * No command waits for a connection and none is sent twice by the client: a call fails at once with `unavailable`, and its
 * caller, who knows what must be read again, repeats it.
 */
function clientOf(settings: RedisSettings): Redis | Cluster {
  const { timeoutMs = 5_000 } = settings;
  const retryStrategy = (times: number): number => Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(times - 1, 10));
  const common = {
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: timeoutMs,
    // A connection on which nothing comes back is given up, so that a dead peer does not hold it for minutes.
    socketTimeout: timeoutMs,
    connectTimeout: timeoutMs,
    // RESP2: scripts answer plain arrays, and no reply takes another form with another server.
    protocol: 2 as const,
    connectionName: 'carillon',
    // Signals subscribe by themselves after each connection.
    autoResubscribe: false,
    // A server that became a replica, or still is one: look for the primary again.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  };
  const single = { ...common, enableOfflineQueue: false, lazyConnect: true, retryStrategy };
  const address = 'url' in settings ? redisAddress(settings.url) : settings;
  if ('url' in address) return new Redis(address.url, single);
  const { username, password, tls } = address;
  const secret = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
  };
  if ('sentinels' in address) {
    return new Redis({ ...single, ...secret, sentinels: [...address.sentinels], name: address.name });
  }
  return new Cluster([...address.nodes], {
    redisOptions: { ...common, ...secret },
    enableOfflineQueue: false,
    lazyConnect: true,
    clusterRetryStrategy: retryStrategy,
    clusterNodeRetryStrategy: retryStrategy,
    // Short, so that a move of slots is followed and an outage is told within the patience of a caller.
    maxRedirections: 4,
  });
}

/**
 * What is asked in one turn of the event loop leaves in one write to the socket: a write costs more than the request in it.
 * Where there are several nodes the client writes to each by itself.
 */
function gathering(client: Redis | Cluster): () => void {
  if (client instanceof Cluster) return () => {};
  let corked = false;
  return () => {
    const { stream } = client;
    if (corked || !(stream instanceof Socket)) return;
    corked = true;
    stream.cork();
    process.nextTick(() => {
      corked = false;
      stream.uncork();
    });
  };
}

function commandsOf(client: Redis | Cluster, telemetry: Telemetry): Commands {
  const gather = gathering(client);
  let inFlight = 0;
  async function call(name: string, args: readonly (string | number | Buffer)[]): Promise<unknown> {
    if (inFlight >= CALLS_IN_FLIGHT) {
      telemetry.count('redis_calls_refused_total');
      throw carillonError('unavailable', `Redis has ${CALLS_IN_FLIGHT} calls not yet answered`);
    }
    inFlight += 1;
    telemetry.gauge('redis_calls_in_flight', inFlight);
    gather();
    try {
      return await client.callBuffer(name, ...args);
    } finally {
      inFlight -= 1;
      telemetry.gauge('redis_calls_in_flight', inFlight);
    }
  }
  async function run(script: Script, keys: readonly string[], args: readonly (string | number | Buffer)[]) {
    if (keys.length !== script.keys || args.length !== script.arguments) {
      throw carillonError('internal', `${script.name}.lua takes ${script.keys} keys and ${script.arguments} arguments`);
    }
    try {
      return await call('evalsha', [script.sha, keys.length, ...keys, ...args]);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
      // Redis forgot it (a restart, SCRIPT FLUSH, a node that is new): EVAL runs it and keeps it.
      return await call('eval', [script.source, keys.length, ...keys, ...args]);
    }
  }
  const translated = async (name: string, work: Promise<unknown>): Promise<unknown> => {
    try {
      return await work;
    } catch (error) {
      const told = redisError(error);
      telemetry.count('redis_errors_total', { command: name, code: told.code });
      throw told;
    }
  };
  return {
    call: (name, args) => translated(name, call(name, args)),
    run: (script, keys, args) => translated(script.name, run(script, keys, args)),
  };
}

/** @throws `setup-refused` with the reason and the mend, from the text that INFO answers */
function refuseUnfit(info: string): void {
  const field = (name: string): string => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';
  const version = field('redis_version');
  if (Number.parseInt(version, 10) < 7) {
    throw carillonError('setup-refused', `Redis is version ${version || 'unknown'}: use 7.0 or newer`);
  }
  const policy = field('maxmemory_policy');
  if (policy !== 'noeviction') {
    throw carillonError(
      'setup-refused',
      `Redis has maxmemory-policy ${policy || 'unknown'} and may silently drop jobs: set it to noeviction`,
    );
  }
}
