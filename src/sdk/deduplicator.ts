/**
 * What a de-duplicator answers to a claim. `claimed`: nobody has this id, it is the caller's now. `done`: it was confirmed
 * before, the trigger is dropped. `held`: somebody else claimed it and has not confirmed it yet; the consumer asks again
 * until it is `done` (then it drops the trigger) or `claimed`.
 */
export type Claim = 'claimed' | 'done' | 'held';

/**
 * Drops copies of a trigger by its execution id. The rule is claim -> handle -> confirm. A claim has a lease: when its
 * holder dies between the two, the lease runs out and the next claim of that id is answered `claimed`, so a crash costs
 * time but no trigger. What the handler did before such a crash is done a second time; a handler that must exclude even that
 * keeps the id in the same transaction as its own effect.
 *
 * With a table of one's own: `claim` inserts (id, holder, until), or takes over a row whose `until` has passed, and answers
 * `done` for rows that are confirmed; `confirm` marks the row; `release` deletes the holder's unconfirmed row.
 */
export interface Deduplicator {
  claim(id: string): Promise<Claim>;
  /** The trigger was handled. Also right after the lease has run out. */
  confirm(id: string): Promise<void>;
  /** The trigger was not handled: whoever asks next may have it. */
  release(id: string): Promise<void>;
  /** Called once by the consumer when it has stopped. */
  close?(): Promise<void> | void;
}

/** The part of a Redis client that is used; an `ioredis` client has it. */
export interface RedisCommands {
  set(key: string, value: string, px: 'PX', ms: number): Promise<unknown>;
  set(key: string, value: string, px: 'PX', ms: number, nx: 'NX'): Promise<unknown>;
  get(key: string): Promise<string | null>;
  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
}

export interface RedisDeduplicatorOptions {
  /** How long a confirmed id is remembered, in ms: longer than a copy can come late. Default 24 h. */
  keepMs?: number;
  /** How long the claim of a dead holder blocks its trigger, in ms; a living holder renews it. Default 30 s. */
  leaseMs?: number;
  /** Default `carillon:execution:`. */
  prefix?: string;
}

const DONE = 'done';
const DAY_MS = 86_400_000;
/** Deletes or prolongs a claim only where it is still the caller's. */
const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const RENEW =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/**
 * De-duplication in Redis: one key per execution id, which holds the holder's name for the time of a lease, and then `done`
 * for `keepMs`. Claims that are held are renewed at a third of the lease, so a handler may take as long as it likes.
 */
export function redisDeduplicator(redis: RedisCommands, options: RedisDeduplicatorOptions = {}): Deduplicator {
  const { keepMs = DAY_MS, leaseMs = 30_000, prefix = 'carillon:execution:' } = options;
  const holder = `claim:${crypto.randomUUID()}`;
  const held = new Set<string>();
  let timer: NodeJS.Timeout | undefined;

  const renewAll = () => {
    for (const id of held) {
      // A renewal that fails is tried again at the next third of the lease.
      redis.eval(RENEW, 1, prefix + id, holder, leaseMs).catch(() => {});
    }
  };
  const hold = (id: string) => {
    held.add(id);
    timer ??= setInterval(renewAll, Math.max(1, Math.floor(leaseMs / 3))).unref();
  };
  const drop = (id: string) => {
    held.delete(id);
    if (held.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  return {
    async claim(id) {
      if ((await redis.set(prefix + id, holder, 'PX', leaseMs, 'NX')) !== null) {
        hold(id);
        return 'claimed';
      }
      return (await redis.get(prefix + id)) === DONE ? 'done' : 'held';
    },
    async confirm(id) {
      await redis.set(prefix + id, DONE, 'PX', keepMs);
      drop(id);
    },
    async release(id) {
      drop(id);
      await redis.eval(RELEASE, 1, prefix + id, holder);
    },
    close() {
      held.clear();
      clearInterval(timer);
      timer = undefined;
    },
  };
}
