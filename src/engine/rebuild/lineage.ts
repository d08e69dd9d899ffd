import type { SlotState } from '../firing/slot-state.ts';

/**
 * A trigger store that went back by less than its horizon looks whole. So progress names the lineages in which all shards that do
 * not lag were known to be right: a new owner that meets another one rebuilds, since the last owner had not compared it yet.
 */
export function knowLineages(slot: SlotState): void {
  if (slot.connections !== slot.options.stores.triggers.connections()) return;
  const shards = [...slot.shards.values()];
  // The last ones stay until all is compared: one shard's lineage says nothing of another's.
  if (shards.some(({ suspect }) => suspect)) return;
  const known = [...new Set(shards.flatMap(({ lost, lineage }) => (lost ? [] : lineage)))].sort();
  // One lineage without a name (SQLite's) is another list than none.
  if (known.length === slot.lineages.length && known.join() === slot.lineages.join()) return;
  slot.lineages = known;
  slot.moved = true;
}

/** Whether the last owner had not compared what a shard is now, as the takeover found it. */
export function isOtherLineage({ running, lineages }: SlotState, lineage: string): boolean {
  return !running && !lineages.includes(lineage);
}
