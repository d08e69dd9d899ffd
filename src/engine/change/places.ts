import { carillonError } from '../../core/errors.ts';
import type { Delivery, Place } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Clock } from '../../ports/clock.ts';
import type { ShardStore } from '../../ports/shard-store.ts';

/** Blocks grow from the first to the second while they are used up, so a small installation holds few places back. */
const BLOCK_FIRST = 16;
const BLOCK_MOST = 2_000;
/**
 * How long a batch waits for places, in ms, from the last block that came for anybody. A single creation is answered and may be
 * repeated by whoever asked. Lines of a bulk were taken with 202 and nobody repeats them, so they wait while the wheels lag or
 * there is no manager for a moment; a minute in which no place came is a no.
 */
const PATIENCE_MS = 10_000;
const BULK_PATIENCE_MS = 60_000;
/** How often a batch that waits asks, in ms. */
const ASK_EVERY_MS = 200;
/** After a wait that was in vain no batch waits for this long, in ms: changes of other jobs go on. */
const REST_MS = 30_000;
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

/** Who wants places. */
export interface Asker {
  /** Lines of a bulk are among the changes. */
  isBulk: boolean;
  /** Whether it has lost the right to them. */
  isOver: () => boolean;
}

/** The places of one delivery's set. */
interface Stock {
  blocks: Block[];
  /** When the last block came, and until when nobody waits, monotonic ms. */
  gotMs: number;
  restUntilMs: number;
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

  /** Gives each its place as long as there are any; answers how many have one. */
  place(all: readonly Place[]): number {
    let placed = 0;
    for (let block = this.blocks[0]; block !== undefined && placed < all.length; block = this.blocks[0]) {
      for (; block.next < block.end && placed < all.length; placed += 1) {
        const place = all[placed]!;
        place.shard = block.shard;
        place.number = block.next++;
      }
      if (block.next === block.end) this.blocks.shift();
    }
    return placed;
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
  readonly #stock: Record<Delivery, Stock> = { 'at-least-once': emptyStock(), 'exactly-once': emptyStock() };
  /** Jobs that left a shard and are still counted there. */
  readonly #freed = new Map<number, number>();
  #cancelTimer: (() => void) | null = null;
  #size = BLOCK_FIRST;
  #comparedMs = Number.NEGATIVE_INFINITY;
  readonly #tell: (message: string, error: unknown) => void;

  /** `tell` is told of what nobody waits for. */
  constructor(shards: ShardStore, clock: Clock, tell: (message: string, error: unknown) => void) {
    this.#shards = shards;
    this.#clock = clock;
    this.#tell = tell;
  }

  /**
   * Takes `wanted` places of a delivery for one round, or as many as there are after a bounded wait; what it leaves is to be
   * released. Rounds that run side by side have places of their own.
   *
   * @throws `unavailable` when whoever wants them has lost the right to
   */
  async hold(delivery: Delivery, wanted: number, asker: Asker): Promise<HeldPlaces> {
    const held = new HeldPlaces();
    if (wanted === 0) return held;
    try {
      await this.#fill(held, delivery, wanted, asker);
      return held;
    } catch (error) {
      this.release(delivery, held);
      throw error;
    }
  }

  async #fill(held: HeldPlaces, delivery: Delivery, wanted: number, { isBulk, isOver }: Asker): Promise<void> {
    await this.#leaveDraining();
    const stock = this.#stock[delivery];
    const beganMs = this.#clock.monotonicMs();
    for (let missing = wanted; !isOver(); ) {
      missing -= this.#move(delivery, missing, held);
      if (missing === 0) return;
      if (await this.#takeBlock(delivery, missing)) continue;
      const nowMs = this.#clock.monotonicMs();
      if (nowMs < stock.restUntilMs) return;
      const patienceMs = isBulk ? BULK_PATIENCE_MS : PATIENCE_MS;
      if (nowMs >= Math.max(beganMs, stock.gotMs) + patienceMs) {
        stock.restUntilMs = nowMs + REST_MS;
        this.#tell('new jobs are refused: no shard takes them', carillonError('capacity-exhausted', delivery));
        return;
      }
      await this.#clock.sleep(ASK_EVERY_MS);
    }
    // Whoever has the partition now decides; refusing for want of places would be a wrong answer.
    throw carillonError('unavailable', 'the partition was taken away while it waited for places');
  }

  /** Takes one block from the store; answers whether there was one. */
  async #takeBlock(delivery: Delivery, missing: number): Promise<boolean> {
    const asked = Math.min(BLOCK_MOST, Math.max(missing, this.#size));
    const block = await this.#shards.takePlaces(delivery, asked, LIMITS.shardJobs);
    if (block === null) return false;
    const { shard, firstNumber, count } = block;
    const stock = this.#stock[delivery];
    stock.blocks.push({ shard, next: firstNumber, end: firstNumber + count });
    stock.gotMs = this.#clock.monotonicMs();
    this.#size = Math.min(BLOCK_MOST, this.#size * 2);
    return true;
  }

  /** Moves up to `most` of the places at hand; answers how many. */
  #move(delivery: Delivery, most: number, held: HeldPlaces): number {
    const { blocks } = this.#stock[delivery];
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
    this.#stock[delivery].blocks.unshift(...blocks.splice(0));
  }

  /** Notes jobs that have left their shards for good. */
  free(shards: readonly number[]): void {
    if (shards.length === 0) return;
    for (const shard of shards) this.#freed.set(shard, (this.#freed.get(shard) ?? 0) + 1);
    this.#cancelTimer ??= this.#clock.after(FREE_AFTER_MS, () => {
      this.#cancelTimer = null;
      this.#writeFreed().catch((error: unknown) => this.#tell('places were not given back', error));
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
    const held = Object.values(this.#stock).flatMap(({ blocks }) => blocks);
    if (held.length === 0 || nowMs - this.#comparedMs < COMPARE_EVERY_MS) return;
    this.#comparedMs = nowMs;
    const closing = new Set((await this.#shards.shards()).filter((one) => one.state !== 'open').map(({ id }) => id));
    const left = held.filter(({ shard }) => closing.has(shard));
    if (left.length === 0) return;
    for (const stock of Object.values(this.#stock)) {
      stock.blocks = stock.blocks.filter(({ shard }) => !closing.has(shard));
    }
    await this.#giveBack(left);
  }

  /** Gives back what is held, and writes what was noted. */
  async close(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    await this.#giveBack(Object.values(this.#stock).flatMap(({ blocks }) => blocks.splice(0)));
    await this.#writeFreed();
  }

  async #giveBack(blocks: readonly Block[]): Promise<void> {
    const bySize = blocks.map(({ shard, next, end }) => ({ shard, jobs: next - end }));
    if (bySize.length > 0) await this.#shards.addJobs(bySize);
  }
}

function emptyStock(): Stock {
  return { blocks: [], gotMs: Number.NEGATIVE_INFINITY, restUntilMs: Number.NEGATIVE_INFINITY };
}
