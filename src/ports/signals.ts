import type { LeaseStore } from './lease-store.ts';
import type { ShardStore } from './shard-store.ts';

/** What may have changed: sessions and leases; the list of shards; that places for jobs are wanted and there are none. */
export type Signal = 'leases' | 'shards' | 'places';

/**
 * Hints between all threads and processes of an installation: whoever looks at a store once a second looks at once when he is
 * told. So an idle installation asks its stores hardly anything and still acts within milliseconds. A signal may be lost or
 * come when nothing has changed, and comes to whoever raised it too; what is right must never depend on it.
 */
export interface Signals {
  /** Tells everybody; never fails, never waits. */
  raise(signal: Signal): void;
  /** Calls `told` at each such signal, and when some may have been lost; the answer ends it. */
  watch(signal: Signal, told: () => void): () => void;
}

type Method = (...args: never[]) => Promise<unknown>;

/** The same store, which tells of the calls after which `changed`, by method, says so of their answer. */
function telling<S extends object>(store: S, changed: ReadonlyMap<string, (answer: unknown) => void>): S {
  return new Proxy(store, {
    get(target, name) {
      const method: unknown = Reflect.get(target, name);
      if (typeof method !== 'function') return method;
      const tell = typeof name === 'string' ? changed.get(name) : undefined;
      if (tell === undefined) return method.bind(target);
      return async (...args: never[]) => {
        const answer = await (method as Method).apply(target, args);
        tell(answer);
        return answer;
      };
    },
  });
}

/** The same stores, which raise a signal with each change that somebody waits for. */
export function signalling<S extends { leases: LeaseStore; shards: ShardStore }>(stores: S, signals: Signals): S {
  const raise = (signal: Signal, when: (answer: unknown) => boolean) => (answer: unknown) => {
    if (when(answer)) signals.raise(signal);
  };
  const leases = raise('leases', (done) => done !== false);
  const shards = raise('shards', (done) => done !== false && done !== 0);
  const places = raise('places', (block) => block === null);
  return {
    ...stores,
    leases: telling(
      stores.leases,
      new Map(['openSession', 'endSession', 'assign', 'ask', 'free'].map((method) => [method, leases])),
    ),
    shards: telling(
      stores.shards,
      new Map([
        ['create', shards],
        ['setState', shards],
        ['takePlaces', places],
      ]),
    ),
  };
}
