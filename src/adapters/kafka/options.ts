import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { ConnectionOptions, SASLOptions } from '@platformatic/kafka';
import { carillonError } from '../../core/errors.ts';

export interface KafkaOptions {
  /** `host:port` of at least one broker; the others are found through it. */
  brokers: readonly string[];
  clientId: string;
  /** TLS as Node takes it; absent: plain text. */
  ssl?: TlsOptions;
  sasl?: SASLOptions;
  /** Replicas of topics that are made here; absent: 3, or as many as there are brokers. */
  replicationFactor?: number;
  /** The coordinator aborts a transaction that is open for longer than this, in ms. */
  transactionTimeoutMs?: number;
  /** What was not acknowledged after this time is given up, in ms. */
  deliveryTimeoutMs?: number;
  /** A group member that was silent for this long loses its partitions, in ms; brokers refuse less than 6 s by default. */
  sessionTimeoutMs?: number;
}

export interface KafkaSettings {
  bootstrap: { host: string; port: number }[];
  clientId: string;
  connection: ConnectionOptions;
  replicationFactor: number | null;
  transactionTimeoutMs: number;
  deliveryTimeoutMs: number;
  sessionTimeoutMs: number;
}

/** No request waits longer than this for its answer, in ms. A fetch waits at the broker for `FETCH_WAIT_MS` at most. */
const REQUEST_TIMEOUT_MS = 10_000;
export const FETCH_WAIT_MS = 5_000;
const DEFAULT_PORT = 9_092;

export function settingsOf(options: KafkaOptions): KafkaSettings {
  return {
    bootstrap: options.brokers.map(addressOf),
    clientId: options.clientId,
    connection: {
      connectTimeout: 5_000,
      requestTimeout: REQUEST_TIMEOUT_MS,
      ...(options.ssl === undefined ? {} : { tls: options.ssl, tlsServerName: true }),
      ...(options.sasl === undefined ? {} : { sasl: options.sasl }),
    },
    replicationFactor: options.replicationFactor ?? null,
    transactionTimeoutMs: options.transactionTimeoutMs ?? 5_000,
    deliveryTimeoutMs: options.deliveryTimeoutMs ?? 30_000,
    sessionTimeoutMs: options.sessionTimeoutMs ?? 6_000,
  };
}

/** `host`, `host:port` or `[v6]:port`. */
function addressOf(broker: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(broker.trim());
  if (match === null) {
    throw carillonError(
      'setup-refused',
      `"${broker}" is no address of a broker; write each as host:port in kafkaBrokers`,
    );
  }
  return { host: match[1] ?? match[2]!, port: match[3] === undefined ? DEFAULT_PORT : Number(match[3]) };
}
