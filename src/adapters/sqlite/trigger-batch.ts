import { type TriggerHead, triggerMessage } from '../../core/envelope.ts';
import { executionId } from '../../core/job.ts';
import { endBytes, hasTriggerBytes, headBytes } from '../../core/trigger-bytes.ts';
import type { BusMessage, SendFailure, TopicMessages, TriggerBatch } from '../../ports/bus.ts';
import { isTooLarge, RECORD_MAX_BYTES } from '../local/admission.ts';
import { BlockWriter } from './block.ts';

/** Triggers of one commit as blocks of their partitions. A part of `commit` like messages. */
export class BlockTriggers implements TriggerBatch, TopicMessages {
  readonly topic = '';
  readonly messages: readonly BusMessage[] = [];
  /** By topic, and by partition; partitions without a record are holes. */
  readonly topics = new Map<string, BlockWriter[]>();
  /** Records that cannot be written; with them nothing can. */
  readonly failures = new Map<string, SendFailure & { places: number[] }>();
  count = 0;
  bytes = 0;
  /** Topic of the last trigger and its partitions. */
  #last = '';
  #partitions: BlockWriter[] = [];

  add(topic: string, head: TriggerHead, shard: number, number: number, nominalMs: number, effectiveMs: number): void {
    if (!hasTriggerBytes(nominalMs)) {
      this.message(topic, triggerMessage(head, executionId(shard, number, nominalMs), nominalMs, effectiveMs));
      return;
    }
    const first = headBytes(head, shard, number);
    const last = endBytes(head, nominalMs, effectiveMs);
    if (first.length + last.length > RECORD_MAX_BYTES) this.#refuse(topic, head.partition);
    this.#writer(topic, head.partition).appendContent(first, last);
    this.count += 1;
    this.bytes += first.length + last.length;
  }

  message(topic: string, message: BusMessage): void {
    if (isTooLarge(message)) this.#refuse(topic, message.partition);
    const writer = this.#writer(topic, message.partition);
    const before = writer.bytes;
    writer.append(message);
    this.count += 1;
    this.bytes += writer.bytes - before;
  }

  toMessages(): readonly TopicMessages[] {
    return [this];
  }

  /** Its buffers may be used again. */
  release(): void {
    for (const partitions of this.topics.values()) for (const writer of partitions) writer?.release();
    this.topics.clear();
    this.#last = '';
    this.#partitions = [];
  }

  #refuse(topic: string, partition: number): void {
    const key = `${topic}/${partition}`;
    const failure = this.failures.get(key) ?? { topic, partition, code: 'record-too-large', places: [] };
    failure.places.push(this.#writer(topic, partition).records);
    this.failures.set(key, failure);
  }

  #writer(topic: string, partition: number): BlockWriter {
    if (topic !== this.#last) {
      this.#partitions = this.topics.get(topic) ?? [];
      this.topics.set(topic, this.#partitions);
      this.#last = topic;
    }
    const writer = this.#partitions[partition];
    if (writer !== undefined) return writer;
    const made = new BlockWriter();
    this.#partitions[partition] = made;
    return made;
  }
}
