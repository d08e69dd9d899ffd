import { carillonError } from '../../core/errors.ts';
import { slotPartition } from '../../core/topics.ts';
import type { Shard, ShardStore } from '../../ports/shard-store.ts';

/** Fast-path partition of each shard. A shard keeps its slot for ever, so what was read once stays. */
export class ShardSlots {
  readonly #store: ShardStore;
  readonly #slotsPerSet: number;
  #known = new Map<number, Shard>();

  constructor(store: ShardStore, slotsPerSet: number) {
    this.#store = store;
    this.#slotsPerSet = slotsPerSet;
  }

  /** Reads the shards where one of these is not known yet. */
  async know(shards: Iterable<number>): Promise<void> {
    for (const shard of shards) {
      if (this.#known.has(shard)) continue;
      this.#known = new Map((await this.#store.shards()).map((one) => [one.id, one]));
      return;
    }
  }

  partition(shard: number): number {
    const known = this.#known.get(shard);
    if (known === undefined) throw carillonError('internal', `shard ${shard} is in no slot`);
    return slotPartition(known.delivery, known.slot, this.#slotsPerSet);
  }
}
