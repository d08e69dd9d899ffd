import { WAITING } from '../firing/entries.ts';
import type { ShardRun } from '../firing/shard-run.ts';
import type { SlotState } from '../firing/slot-state.ts';

/**
 * The store has lost a shard, or a part of it. What the wheel has up to the horizon goes on from memory. What lies beyond
 * waits outside the wheel: it would be published after the T at which the shard stands, and a new owner would publish it again.
 */
export function loseShard(slot: SlotState, shard: ShardRun, reason: string): void {
  if (shard.lost) return;
  shard.lost = true;
  shard.triedMs = null;
  slot.moved = true;
  const { entries, wheel } = slot;
  for (const entry of entries.ofShard(shard.id)) {
    // From here on its horizon counts, not that of the slot.
    entries.plan[entry] = null;
    const beyond = entries.effectiveMs[entry]! > shard.horizonMs && entries.live[entry]!.cursor === null;
    if (beyond && entries.state[entry] === WAITING) wheel.cancel(entry);
  }
  if (reason === 'new') return;
  // Seldom is one lost alone: the others are looked at without waiting for their horizons. A surplus is found by such a look.
  if (reason !== 'surplus') for (const other of slot.shards.values()) if (!other.lost) other.suspect = true;
  slot.count('shards_lost_total', { reason });
  slot.event('warn', 'the trigger store has lost a shard: it is rebuilt', { shard: shard.id, reason });
}

/** Lost shards with the T of each, for the record of progress: whoever comes next rebuilds them too. Null: there are none. */
export function laggingAt(slot: SlotState, t: number): Record<string, number> | null {
  let lagging: Record<string, number> | null = null;
  for (const { id, lost, horizonMs } of slot.shards.values()) {
    if (!lost) continue;
    lagging ??= {};
    lagging[id] = Math.min(horizonMs, t);
  }
  return lagging;
}

/** T of one shard as the former owner left it, UTC ms. */
export function inheritedT(slot: SlotState, shard: number): number {
  return Math.min(slot.durable.t, slot.lagging.get(shard) ?? Number.POSITIVE_INFINITY);
}
