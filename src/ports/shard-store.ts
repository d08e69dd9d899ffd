import type { Delivery } from '../core/job.ts';

/** Shards and their places. A shard belongs to one slot for ever; job numbers in it rise and are never reused. */
export interface ShardStore {
  shards(): Promise<Shard[]>;
  /** Inserts shards that do not exist; answers how many went in. */
  create(shards: readonly Shard[]): Promise<number>;
  /**
   * Takes up to `wanted` places in one block from the shard with the fewest jobs that is open, not saturated, has free places
   * (below `capacity`) and belongs to this delivery's set, as one atomic step. Null: there is none.
   */
  takePlaces(delivery: Delivery, wanted: number, capacity: number): Promise<PlaceBlock | null>;
  /** Adds to the count of jobs of shards (negative: places given back). Numbers are not given back. */
  addJobs(changes: readonly { shard: number; jobs: number }[]): Promise<void>;
  /** Moves a shard from one state to another; answers whether it was in the first. */
  setState(shard: number, from: ShardState, to: ShardState): Promise<boolean>;
  /** Stores measured load of shards: triggers per second and saturation. For display and for allotment. */
  setLoad(loads: readonly { shard: number; triggersPerSecond: number; saturated: boolean }[]): Promise<void>;
}

/**
 * `new`: made, not yet taken up by the owner of its slot; `open`: takes jobs; `draining`: takes no jobs, its jobs move away;
 * `closed`: empty, for good.
 */
export type ShardState = 'new' | 'open' | 'draining' | 'closed';

export interface Shard {
  id: number;
  delivery: Delivery;
  /** Slot of the delivery's set, 0 to slotsPerSet - 1. */
  slot: number;
  state: ShardState;
  /** Jobs placed, blocks that are held included. */
  jobs: number;
  /** Next job number to be given out. */
  nextNumber: number;
  triggersPerSecond: number;
  saturated: boolean;
}

/** Numbers `firstNumber` to `firstNumber + count - 1` of a shard, held by whoever took them. */
export interface PlaceBlock {
  shard: number;
  slot: number;
  firstNumber: number;
  count: number;
}
