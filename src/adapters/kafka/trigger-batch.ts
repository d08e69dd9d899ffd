import { type TriggerHead, triggerMessage } from '../../core/envelope.ts';
import { executionId } from '../../core/job.ts';
import { endBytes, hasTriggerBytes, headBytes } from '../../core/trigger-bytes.ts';
import type { BusMessage, TopicMessages, TriggerBatch } from '../../ports/bus.ts';
import { Delivery } from './delivery.ts';
import type { PartitionQueue, Place } from './partition-queue.ts';

/** Triggers as bytes of their partitions' batches. A part of `send` and `commit` like messages. */
export class EncodedTriggers implements TriggerBatch, TopicMessages {
  readonly topic = '';
  readonly messages: readonly BusMessage[] = [];
  readonly delivery: Delivery;
  readonly #queueOf: (topic: string, partition: number) => PartitionQueue;
  readonly #topics = new Map<string, Place[]>();
  /** Topic of the last trigger and its places by partition. */
  #last = '';
  #places: Place[] = [];
  count = 0;
  bytes = 0;

  constructor(queueOf: (topic: string, partition: number) => PartitionQueue, waits = false) {
    this.#queueOf = queueOf;
    this.delivery = new Delivery(waits);
  }

  add(topic: string, head: TriggerHead, shard: number, number: number, nominalMs: number, effectiveMs: number): void {
    if (!hasTriggerBytes(nominalMs)) {
      this.message(topic, triggerMessage(head, executionId(shard, number, nominalMs), nominalMs, effectiveMs));
      return;
    }
    const first = headBytes(head, shard, number);
    const last = endBytes(head, nominalMs, effectiveMs);
    if (topic !== this.#last) this.#turn(topic);
    const place = this.#places[head.partition] ?? this.#place(topic, head.partition);
    place.queue.appendContent(place, first, last);
    this.count += 1;
    this.bytes += first.length + last.length;
  }

  message(topic: string, message: BusMessage): void {
    const place = this.placeOf(topic, message.partition);
    place.queue.append(place, message);
    this.count += 1;
    this.bytes += (message.value?.length ?? 0) + 512;
  }

  toMessages(): readonly TopicMessages[] {
    return [this];
  }

  placeOf(topic: string, partition: number): Place {
    if (topic !== this.#last) this.#turn(topic);
    return this.#places[partition] ?? this.#place(topic, partition);
  }

  *queues(): Generator<PartitionQueue> {
    // Partitions that have no record are holes of the arrays.
    for (const places of this.#topics.values()) for (const place of places) if (place !== undefined) yield place.queue;
  }

  #turn(topic: string): void {
    const places = this.#topics.get(topic) ?? [];
    this.#topics.set(topic, places);
    this.#last = topic;
    this.#places = places;
  }

  #place(topic: string, partition: number): Place {
    const place = this.#queueOf(topic, partition).place(this.delivery);
    this.#places[partition] = place;
    return place;
  }
}
