import type { Cluster, Redis } from 'ioredis';
import type { Signal, Signals } from '../../ports/signals.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

/**
 * Signals by publish and subscribe, on a connection of its own from the first `watch` on: to wait on it costs Redis and the
 * waiting process nothing. After each connection everybody is told, since signals may have been lost before it.
 */
export class RedisSignals implements Signals {
  readonly #client: Redis | Cluster;
  readonly #another: () => Redis | Cluster;
  readonly #channel: string;
  readonly #telemetry: Telemetry;
  readonly #watchers = new Map<string, Set<() => void>>();
  #subscriber: Redis | Cluster | null = null;
  #closed = false;

  /** `another` makes one more client to the same server, not connected yet, that does not subscribe again by itself. */
  constructor(client: Redis | Cluster, another: () => Redis | Cluster, prefix: string, telemetry: Telemetry) {
    this.#client = client;
    this.#another = another;
    this.#channel = `carillon:${prefix}:signals`;
    this.#telemetry = telemetry;
  }

  raise(signal: Signal): void {
    this.#client.publish(this.#channel, signal).catch(() => {
      this.#telemetry.count('signals_lost_total');
    });
  }

  watch(signal: Signal, told: () => void): () => void {
    this.#subscriber ??= this.#subscribe();
    const watchers = this.#watchers.get(signal) ?? new Set();
    this.#watchers.set(signal, watchers.add(told));
    return () => void watchers.delete(told);
  }

  #subscribe(): Redis | Cluster {
    const subscriber = this.#another();
    subscriber.on('error', () => this.#telemetry.count('redis_connection_errors_total'));
    subscriber.on('ready', () => {
      subscriber.subscribe(this.#channel).then(
        () => this.#tellAll(),
        () => this.#telemetry.count('signals_lost_total'),
      );
    });
    subscriber.on('message', (_channel: string, signal: string) => {
      for (const told of this.#watchers.get(signal) ?? []) told();
    });
    subscriber.connect().catch(() => {});
    return subscriber;
  }

  #tellAll(): void {
    if (this.#closed) return;
    for (const watchers of this.#watchers.values()) for (const told of watchers) told();
  }

  close(): void {
    this.#closed = true;
    this.#subscriber?.disconnect();
  }
}
