import { LIMITS } from '../../core/limits.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import { cursorKey } from './cursors.ts';
import type { Live } from './entries.ts';
import type { SlotState } from './slot-state.ts';

/**
 * Jobs that a scan had found, that have fired and left the wheel, and whose message may still be under way: an applier that
 * dies between its two writes sends it when it is back. Without this memory the message would look like news and fire the
 * same times again. Only changes of the last minutes can be so late.
 */
export function mayComeLate(slot: SlotState, cutMs: number): boolean {
  return cutMs > slot.options.clock.wallMs() - LIMITS.lateChangeMs;
}

export function rememberLeft(slot: SlotState, shard: number, number: number, live: Live): void {
  if (live.takenFromMs === NO_OCCURRENCE || live.current === null || !mayComeLate(slot, live.cutMs)) return;
  slot.left.remember(cursorKey(shard, number), live);
}

/** What is remembered of a job that comes up again; it is forgotten with that. */
export function recallLeft(slot: SlotState, shard: number, number: number): Live | null {
  return slot.left.size === 0 ? null : slot.left.recall(cursorKey(shard, number));
}
