import { isCode } from '../../core/errors.ts';
import type { SlotState } from './slot-state.ts';

/**
 * What takes no triggers now: topics that do not exist, and partitions without a leader or that do not answer. Their jobs wait
 * behind cursors, so they hold up nothing; others of the same batch go without them.
 */
export function isAway(slot: SlotState, topic: string, partition: number): boolean {
  const { away } = slot;
  return away.size > 0 && (away.has(topic) || away.has(keyOf(topic, partition)));
}

/** `partition` null: the whole topic. */
export function setAway(slot: SlotState, topic: string, partition: number | null): void {
  const key = keyOf(topic, partition);
  if (slot.away.has(key)) return;
  slot.away.add(key);
  if (partition === null) {
    slot.count('topics_missing_total', { topic });
    slot.event('error', 'a topic does not exist: its triggers wait behind cursors until it does', { topic });
  } else {
    slot.count('partitions_unled_total', { topic });
    slot.event('error', 'a partition takes no triggers: they wait behind cursors until it does', {
      topic,
      partition,
    });
  }
}

/** Looks whether it is there by now. */
export async function lookForAway(slot: SlotState): Promise<void> {
  for (const key of [...slot.away]) {
    const [topic, partition] = partsOf(key);
    try {
      if (!(await isBack(slot, topic, partition))) continue;
    } catch (error) {
      // A topic that was deleted meanwhile is found missing by the next trigger for it.
      if (partition === null || !isCode(error, 'topic-unknown')) continue;
    }
    if (slot.away.delete(key)) slot.event('info', 'a topic takes triggers again', { topic, partition });
  }
}

async function isBack(slot: SlotState, topic: string, partition: number | null): Promise<boolean> {
  const { bus } = slot.options.stores;
  return partition === null ? (await bus.partitions(topic)) > 0 : await bus.isLed(topic, partition);
}

/** No topic has a slash in its name. */
function keyOf(topic: string, partition: number | null): string {
  return partition === null ? topic : `${topic}/${partition}`;
}

function partsOf(key: string): [string, number | null] {
  const at = key.indexOf('/');
  return at < 0 ? [key, null] : [key.slice(0, at), Number(key.slice(at + 1))];
}
