import { carillonError } from '../../core/errors.ts';
import type { Delivery } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Clock } from '../../ports/clock.ts';
import type { PlaceBlock, ShardStore } from '../../ports/shard-store.ts';

/** Blocks grow from the first to the second while they are used up, so a small installation holds few places back. */
const BLOCK_FIRST = 16;
const BLOCK_MOST = 500;
/** How long a batch waits for the manager to make shards, in ms, and how often it asks. */
const CAPACITY_WAIT_MS = 10_000;
const CAPACITY_ASK_MS = 200;
/** After a wait that was in vain no batch waits for this long, in ms: changes of other jobs go on. */
const CAPACITY_REST_MS = 30_000;
/** Held blocks are compared with the states of their shards this often, in ms, while places are wanted. */
const COMPARE_EVERY_MS = 5_000;

/** Places for new jobs, taken in blocks and held in memory; what is left at the end is given back. */
export class Places {
  readonly #shards: ShardStore;
  readonly #clock: Clock;
  readonly #blocks: Record<Delivery, PlaceBlock[]> = { 'at-least-once': [], 'exactly-once': [] };
  #size = BLOCK_FIRST;
  #restUntilMs = 0;
  #comparedMs = Number.NEGATIVE_INFINITY;

  constructor(shards: ShardStore, clock: Clock) {
    this.#shards = shards;
    this.#clock = clock;
  }

  /** Holds at least `wanted` places of a delivery, or as many as there are after a bounded wait; throws when it is ended. */
  async hold(delivery: Delivery, wanted: number, signal: AbortSignal): Promise<void> {
    if (wanted === 0) return;
    await this.#leaveDraining();
    const blocks = this.#blocks[delivery];
    let missing = wanted - blocks.reduce((sum, { count }) => sum + count, 0);
    const endMs = this.#clock.monotonicMs() + CAPACITY_WAIT_MS;
    while (missing > 0 && !signal.aborted) {
      const asked = Math.min(BLOCK_MOST, Math.max(missing, this.#size));
      const block = await this.#shards.takePlaces(delivery, asked, LIMITS.shardJobs);
      if (block !== null) {
        blocks.push(block);
        missing -= block.count;
        this.#size = Math.min(BLOCK_MOST, this.#size * 2);
        continue;
      }
      const nowMs = this.#clock.monotonicMs();
      if (nowMs < this.#restUntilMs) return;
      if (nowMs >= endMs) {
        this.#restUntilMs = nowMs + CAPACITY_REST_MS;
        return;
      }
      await this.#clock.sleep(CAPACITY_ASK_MS, signal);
    }
    // Whoever has the partition now decides; refusing for want of places would be a wrong answer.
    if (signal.aborted) throw carillonError('unavailable', 'the partition was taken away while it waited for places');
  }

  /** One of the places held, or null. */
  take(delivery: Delivery): { shard: number; number: number } | null {
    const block = this.#blocks[delivery][0];
    if (block === undefined) return null;
    const { shard, firstNumber: number } = block;
    if (block.count === 1) this.#blocks[delivery].shift();
    else this.#blocks[delivery][0] = { ...block, firstNumber: number + 1, count: block.count - 1 };
    return { shard, number };
  }

  /** Gives back the places of shards that take no jobs any more, so that they can become empty. */
  async #leaveDraining(): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    const held = Object.values(this.#blocks).flat();
    if (held.length === 0 || nowMs - this.#comparedMs < COMPARE_EVERY_MS) return;
    this.#comparedMs = nowMs;
    const closing = new Set((await this.#shards.shards()).filter((one) => one.state !== 'open').map(({ id }) => id));
    const left = held.filter(({ shard }) => closing.has(shard));
    if (left.length === 0) return;
    for (const [delivery, blocks] of Object.entries(this.#blocks)) {
      this.#blocks[delivery as Delivery] = blocks.filter(({ shard }) => !closing.has(shard));
    }
    await this.#shards.addJobs(left.map(({ shard, count }) => ({ shard, jobs: -count })));
  }

  /** Gives back what is held. Their numbers are not used again, their places are. */
  async giveBack(): Promise<void> {
    const held = Object.values(this.#blocks).flat();
    for (const blocks of Object.values(this.#blocks)) blocks.length = 0;
    if (held.length > 0) await this.#shards.addJobs(held.map(({ shard, count }) => ({ shard, jobs: -count })));
  }
}
