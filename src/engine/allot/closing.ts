import type { Shard } from '../../ports/shard-store.ts';
import type { AllotContext } from './context.ts';
import type { Leader } from './leader.ts';

/** A draining shard that counts jobs is compared with the job store this often, in ms. */
const LOOK_EVERY_MS = 10_000;
/**
 * What a shard counts and the job store does not know is the block of an applier that died, when nothing has changed in it for
 * this long, in ms: a living one gives the places of a draining shard back within seconds of its next one.
 */
const UNCOUNTED_MS = 60_000;
/** A shard that was closed against its count is looked at for so long, in ms: an applier may have been frozen for a while. */
const WATCH_MS = 600_000;
const MOVING_MOST = 10_000;

interface Seen {
  jobs: number;
  /** Since when the job store knows no job of the shard; monotonic ms. */
  emptyMs: number;
  lookedMs: number;
}

/**
 * Closes draining shards that hold nothing any more. A count that is too high, since an applier died with places in its hands,
 * does not keep a shard for ever; and should a job turn up in a shard that was closed against its count, it drains again.
 */
export class Closing {
  readonly #context: AllotContext;
  readonly #leader: Leader;
  readonly #seen = new Map<number, Seen>();
  /** Shards that were closed against their count, with the time, monotonic ms. */
  readonly #watched = new Map<number, number>();
  #watchedMs = Number.NEGATIVE_INFINITY;

  constructor(context: AllotContext, leader: Leader) {
    this.#context = context;
    this.#leader = leader;
  }

  async run(shards: readonly Shard[], nowMs: number): Promise<void> {
    const draining = shards.filter(({ state }) => state === 'draining');
    for (const id of this.#seen.keys()) if (!draining.some((shard) => shard.id === id)) this.#seen.delete(id);
    for (const shard of draining) {
      if (shard.jobs === 0) await this.#close(shard);
      else await this.#lookAt(shard, nowMs);
    }
    if (this.#watched.size > 0 && nowMs - this.#watchedMs >= LOOK_EVERY_MS) await this.#watch(nowMs);
  }

  async #lookAt(shard: Shard, nowMs: number): Promise<void> {
    const seen = this.#seen.get(shard.id);
    if (seen !== undefined && nowMs - seen.lookedMs < LOOK_EVERY_MS) return;
    const empty = await this.#isEmpty(shard.id);
    const emptyMs = empty && seen?.jobs === shard.jobs ? seen.emptyMs : nowMs;
    this.#seen.set(shard.id, { jobs: shard.jobs, emptyMs, lookedMs: nowMs });
    if (!empty || nowMs - emptyMs < UNCOUNTED_MS || !(await this.#close(shard))) return;
    this.#watched.set(shard.id, nowMs);
    this.#context.telemetry.count('shard_places_mended_total', {}, shard.jobs);
  }

  /** Whether the job store knows of no job in a shard, neither of one that is there nor of one that has not quite left it. */
  async #isEmpty(shard: number): Promise<boolean> {
    const { jobs } = this.#context.stores;
    if ((await jobs.byShard(shard, -1, 1)).length > 0) return false;
    const moving = await jobs.using({ moving: true }, null, MOVING_MOST);
    return !moving.some(({ move }) => move?.from?.shard === shard);
  }

  /** Closes a shard for good, if the job store knows of no job in it either: counts may be behind. */
  async #close(shard: Shard): Promise<boolean> {
    const { stores, telemetry } = this.#context;
    if (!(await this.#isEmpty(shard.id))) return false;
    if (!this.#leader.trusted() || !(await stores.shards.setState(shard.id, 'draining', 'closed'))) return false;
    telemetry.event('info', 'an empty shard was closed', { shard: shard.id, counted: shard.jobs });
    return true;
  }

  async #watch(nowMs: number): Promise<void> {
    const { stores, telemetry } = this.#context;
    this.#watchedMs = nowMs;
    for (const [id, closedMs] of this.#watched) {
      if (nowMs - closedMs > WATCH_MS) this.#watched.delete(id);
      if (!this.#leader.trusted() || (await this.#isEmpty(id))) continue;
      this.#watched.delete(id);
      await stores.shards.setState(id, 'closed', 'draining');
      telemetry.event('warn', 'a job turned up in a closed shard, which drains again', { shard: id });
    }
  }
}
