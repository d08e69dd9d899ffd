import { carillonError } from '../../core/errors.ts';

export interface RedisNode {
  host: string;
  port: number;
}

/** Where Redis is: one server by URL (`redis://` or `rediss://`), a Redis Cluster, or a set behind Sentinels. */
export type RedisAddress =
  | { url: string }
  | { nodes: readonly RedisNode[]; username?: string; password?: string; tls?: boolean }
  | { sentinels: readonly RedisNode[]; name: string; username?: string; password?: string; tls?: boolean };

/** Schemes, user and password, hosts by comma, and the name under which Sentinels know the primary. */
const SEVERAL = /^redis(s)?\+(cluster|sentinel):\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^@/]+)(?:\/([^/]*))?$/;
const DEFAULT_PORTS = { cluster: 6_379, sentinel: 26_379 };
const FORMS = 'redis://HOST:PORT, redis+cluster://HOST:PORT,HOST:PORT or redis+sentinel://HOST:PORT,HOST:PORT/NAME';

/**
 * Reads an address as it is set: one server as every client takes it, several by a scheme that says what they are. `rediss`
 * in place of `redis` is TLS. User and password are those of Redis, percent-encoded.
 * Example: `rediss+sentinel://:secret@a:26379,b:26379/jobs`.
 *
 * @throws CarillonError `setup-refused`, which repeats nothing of the address, since it may hold a password
 */
export function redisAddress(url: string): RedisAddress {
  if (/^rediss?:\/\//.test(url)) return { url };
  const match = SEVERAL.exec(url);
  if (match === null) throw refused('is no address');
  const [, secure, kind, username, password, hosts, name] = match;
  const access = {
    ...(username ? { username: decoded(username) } : {}),
    ...(password ? { password: decoded(password) } : {}),
    ...(secure ? { tls: true } : {}),
  };
  if (kind === 'cluster') {
    if (name) throw refused('names a database, and a cluster has only one');
    return { nodes: nodesOf(hosts!, DEFAULT_PORTS.cluster), ...access };
  }
  if (!name) throw refused('does not name the primary that the Sentinels watch');
  return { sentinels: nodesOf(hosts!, DEFAULT_PORTS.sentinel), name: decoded(name), ...access };
}

/** `host`, `host:port` or `[v6]:port`, by comma. */
function nodesOf(hosts: string, defaultPort: number): RedisNode[] {
  return hosts.split(',').map((text) => {
    const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text.trim());
    if (match === null) throw refused('has a host that cannot be read');
    return { host: match[1] ?? match[2]!, port: match[3] === undefined ? defaultPort : Number(match[3]) };
  });
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refused('has a "%" that encodes nothing; write it as %25');
  }
}

function refused(what: string): Error {
  return carillonError('setup-refused', `redisUrl ${what}; write it as ${FORMS}`);
}
