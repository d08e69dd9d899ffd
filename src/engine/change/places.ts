import { carillonError } from '../../core/errors.ts';
import type { Delivery, Place } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Clock } from '../../ports/clock.ts';
import type { ShardStore } from '../../ports/shard-store.ts';

/** Blocks grow from the first to the second while they are used up, so a small installation holds few places back. */
const BLOCK_FIRST = 16;
const BLOCK_MOST = 2_000;
/** How long a batch waits for the manager to make shards, in ms, and how often it asks. */
const CAPACITY_WAIT_MS = 10_000;
const CAPACITY_ASK_MS = 200;
/** After a wait that was in vain no batch waits for this long, in ms: changes of other jobs go on. */
const CAPACITY_REST_MS = 30_000;
/** Held blocks are compared with the states of their shards this often, in ms, while places are wanted. */
const COMPARE_EVERY_MS = 5_000;
/** Places that jobs gave up are counted in their shards this long after the first of them, in ms, in one write. */
const FREE_AFTER_MS = 1_000;

/** Numbers from `next` to `end`, exclusive. */
interface Block {
  shard: number;
  next: number;
  end: number;
}

/** The places of one round. */
export class HeldPlaces {
  readonly blocks: Block[] = [];

  /** One of them, or null. */
  take(): Place | null {
    const [block] = this.blocks;
    if (block === undefined) return null;
    const { shard, next: number } = block;
    block.next += 1;
    if (block.next === block.end) this.blocks.shift();
    return { shard, number };
  }

  /** Takes a place back that was never written anywhere. */
  putBack({ shard, number }: Place): void {
    const last = this.blocks.at(-1);
    if (last?.shard === shard && last.end === number) last.end += 1;
    else this.blocks.push({ shard, next: number, end: number + 1 });
  }
}

/**
 * Places for the new jobs of one process, taken in blocks and held in memory; what is left at the end is given back. Numbers
 * are never used again, places are. A crash leaves the shards with a few jobs more in their counts than they have.
 */
export class Places {
  readonly #shards: ShardStore;
  readonly #clock: Clock;
  readonly #blocks: Record<Delivery, Block[]> = { 'at-least-once': [], 'exactly-once': [] };
  /** Jobs that left a shard and are still counted there. */
  readonly #freed = new Map<number, number>();
  #cancelTimer: (() => void) | null = null;
  #size = BLOCK_FIRST;
  #restUntilMs = 0;
  #comparedMs = Number.NEGATIVE_INFINITY;
  readonly #onError: (error: unknown) => void;

  /** `onError` is told of a failure that nobody waits for. */
  constructor(shards: ShardStore, clock: Clock, onError: (error: unknown) => void) {
    this.#shards = shards;
    this.#clock = clock;
    this.#onError = onError;
  }

  /**
   * Takes `wanted` places of a delivery for one round, or as many as there are after a bounded wait; what it leaves is to be
   * released. Rounds that run side by side have places of their own.
   *
   * @throws `unavailable` when `isOver` says that whoever wants them has lost the right to
   */
  async hold(delivery: Delivery, wanted: number, isOver: () => boolean): Promise<HeldPlaces> {
    const held = new HeldPlaces();
    if (wanted === 0) return held;
    try {
      await this.#fill(held, delivery, wanted, isOver);
      return held;
    } catch (error) {
      this.release(delivery, held);
      throw error;
    }
  }

  async #fill(held: HeldPlaces, delivery: Delivery, wanted: number, isOver: () => boolean): Promise<void> {
    await this.#leaveDraining();
    const endMs = this.#clock.monotonicMs() + CAPACITY_WAIT_MS;
    for (let missing = wanted; !isOver(); ) {
      missing -= this.#move(delivery, missing, held);
      if (missing === 0) return;
      const asked = Math.min(BLOCK_MOST, Math.max(missing, this.#size));
      const block = await this.#shards.takePlaces(delivery, asked, LIMITS.shardJobs);
      if (block !== null) {
        const { shard, firstNumber, count } = block;
        this.#blocks[delivery].push({ shard, next: firstNumber, end: firstNumber + count });
        this.#size = Math.min(BLOCK_MOST, this.#size * 2);
        continue;
      }
      const nowMs = this.#clock.monotonicMs();
      if (nowMs < this.#restUntilMs) return;
      if (nowMs >= endMs) {
        this.#restUntilMs = nowMs + CAPACITY_REST_MS;
        return;
      }
      await this.#clock.sleep(CAPACITY_ASK_MS);
    }
    // Whoever has the partition now decides; refusing for want of places would be a wrong answer.
    throw carillonError('unavailable', 'the partition was taken away while it waited for places');
  }

  /** Moves up to `most` of the places at hand; answers how many. */
  #move(delivery: Delivery, most: number, held: HeldPlaces): number {
    const blocks = this.#blocks[delivery];
    let moved = 0;
    while (moved < most && blocks.length > 0) {
      const block = blocks[0]!;
      const end = Math.min(block.end, block.next + most - moved);
      held.blocks.push({ ...block, end });
      moved += end - block.next;
      block.next = end;
      if (block.next === block.end) blocks.shift();
    }
    return moved;
  }

  /** Takes back what a round has not used. */
  release(delivery: Delivery, { blocks }: HeldPlaces): void {
    this.#blocks[delivery].unshift(...blocks.splice(0));
  }

  /** Notes jobs that have left their shards for good. */
  free(shards: readonly number[]): void {
    if (shards.length === 0) return;
    for (const shard of shards) this.#freed.set(shard, (this.#freed.get(shard) ?? 0) + 1);
    this.#cancelTimer ??= this.#clock.after(FREE_AFTER_MS, () => {
      this.#cancelTimer = null;
      this.#writeFreed().catch(this.#onError);
    });
  }

  async #writeFreed(): Promise<void> {
    const changes = [...this.#freed].map(([shard, jobs]) => ({ shard, jobs: -jobs }));
    this.#freed.clear();
    if (changes.length > 0) await this.#shards.addJobs(changes);
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
    await this.#giveBack(left);
  }

  /** Gives back what is held, and writes what was noted. */
  async close(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    const held = Object.values(this.#blocks).flat();
    for (const blocks of Object.values(this.#blocks)) blocks.length = 0;
    await this.#giveBack(held);
    await this.#writeFreed();
  }

  async #giveBack(blocks: readonly Block[]): Promise<void> {
    const bySize = blocks.map(({ shard, next, end }) => ({ shard, jobs: next - end }));
    if (bySize.length > 0) await this.#shards.addJobs(bySize);
  }
}
