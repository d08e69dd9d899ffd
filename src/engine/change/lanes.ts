import { carillonError } from '../../core/errors.ts';
import type { BusLane, GroupOffset, TopicMessages } from '../../ports/bus.ts';

/** A commit on its way, or done; it never rejects. */
type Use = Promise<unknown>;

/**
 * The lanes of the changes partitions that one process works on. A commit for several partitions goes through the lane of one
 * of them, the one that rested longest; the lane fences whoever had that partition before, and the offsets name their holder,
 * so that the bus refuses them where another of the partitions has been given to somebody else.
 */
export class Lanes {
  /** By partition; those used last stand last. */
  readonly #lanes = new Map<number, { lane: BusLane; use: Use | null }>();

  get size(): number {
    return this.#lanes.size;
  }

  has(partition: number): boolean {
    return this.#lanes.has(partition);
  }

  open(partition: number, lane: BusLane): void {
    this.#lanes.set(partition, { lane, use: null });
  }

  /** Lets a lane go when its commit is over. */
  async close(partition: number): Promise<void> {
    const held = this.#lanes.get(partition);
    this.#lanes.delete(partition);
    await held?.use;
    await held?.lane.close();
  }

  /** One commit for these partitions. @throws as `BusLane.commit`, and `unavailable` where none of them has a lane */
  async commit(
    partitions: readonly number[],
    messages: readonly TopicMessages[],
    offsets: readonly GroupOffset[],
  ): Promise<void> {
    const own = [...this.#lanes].filter(([partition]) => partitions.includes(partition));
    const [partition, held] = own.find(([, { use }]) => use === null) ?? own[0] ?? [];
    if (partition === undefined || held === undefined) {
      throw carillonError('unavailable', `no lane is open for the changes partitions ${partitions.join(', ')}`);
    }
    const before = held.use;
    const commit = (async () => {
      await before;
      await held.lane.commit(messages, offsets);
    })();
    const use: Use = commit.then(
      () => {},
      () => {},
    );
    held.use = use;
    try {
      await commit;
    } finally {
      if (held.use === use) held.use = null;
      // Behind all others, unless it was closed meanwhile.
      if (this.#lanes.get(partition) === held) {
        this.#lanes.delete(partition);
        this.#lanes.set(partition, held);
      }
    }
  }
}
