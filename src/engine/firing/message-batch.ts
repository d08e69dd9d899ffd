import { type TriggerHead, triggerMessage } from '../../core/envelope.ts';
import { executionId } from '../../core/job.ts';
import type { BusMessage, TopicMessages, TriggerBatch } from '../../ports/bus.ts';

/** Bytes that headers and framing add to key and payload. */
const FRAME_BYTES = 512;

/** Triggers as messages, for a bus that has no form of its own for them. */
export class MessageBatch implements TriggerBatch {
  readonly #byTopic = new Map<string, BusMessage[]>();
  count = 0;
  bytes = 0;

  add(topic: string, head: TriggerHead, shard: number, number: number, nominalMs: number, effectiveMs: number): void {
    this.message(topic, triggerMessage(head, executionId(shard, number, nominalMs), nominalMs, effectiveMs));
  }

  message(topic: string, message: BusMessage): void {
    let messages = this.#byTopic.get(topic);
    if (messages === undefined) {
      messages = [];
      this.#byTopic.set(topic, messages);
    }
    messages.push(message);
    this.count += 1;
    this.bytes += (message.value?.length ?? 0) + FRAME_BYTES;
  }

  toMessages(): readonly TopicMessages[] {
    return [...this.#byTopic].map(([topic, messages]) => ({ topic, messages }));
  }
}
