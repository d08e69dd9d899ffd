import { LIMITS } from '../../core/limits.ts';
import { type Answer, encodeMessage } from '../../core/messages.ts';
import { partitionOf } from '../../core/murmur2.ts';
import { TOPICS } from '../../core/topics.ts';
import type { SlotState } from './slot-state.ts';

/** The owner's answer to a change. It is a courtesy: whoever asked waits for it a short time only, and no longer than that. */
export function answer(slot: SlotState, message: Answer): void {
  if (slot.answers.length >= LIMITS.ownerAnswers) {
    slot.answers.shift();
    slot.count('answers_dropped_total');
  }
  slot.answers.push(message);
}

/** Sends the answers that wait, as one batch. Those of a batch that fails are dropped. */
export async function flushAnswers(slot: SlotState): Promise<void> {
  if (slot.answers.length === 0) return;
  const answers = slot.answers.splice(0);
  slot.answersPartitions ??= await slot.options.stores.bus.partitions(TOPICS.answers);
  const partitions = slot.answersPartitions;
  const messages = answers.map((message) => ({
    partition: partitionOf(message.replyTo, partitions),
    key: message.replyTo,
    value: encodeMessage(message),
  }));
  await slot.options.producer.send([{ topic: TOPICS.answers, messages }]);
}
