import type { BusMessage, SendFailure, TopicMessages } from '../../ports/bus.ts';

/**
 * Greatest size of a record in bytes: key, value and headers together. It is the default of Kafka's brokers, so that what
 * goes through here goes through there.
 */
export const RECORD_MAX_BYTES = 1024 * 1024;
/** UTF-16 units of a text take at most 3 bytes in UTF-8 each. */
const BYTES_PER_UNIT = 3;

export function isTooLarge(message: BusMessage): boolean {
  const valueBytes = message.value?.length ?? 0;
  let textUnits = message.key?.length ?? 0;
  for (const name in message.headers) textUnits += name.length + message.headers[name]!.length;
  if (valueBytes + textUnits * BYTES_PER_UNIT <= RECORD_MAX_BYTES) return false;
  let bytes = valueBytes + Buffer.byteLength(message.key ?? '');
  for (const [name, value] of Object.entries(message.headers ?? {})) {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value);
  }
  return bytes > RECORD_MAX_BYTES;
}

/**
 * Parts a batch into what can be written and what cannot, for certain. `partitionsOf` answers the number of partitions, 0 for
 * a topic that does not exist. Batches without a failure come back as they are: the usual case costs one look per message.
 */
export function admit(
  batch: readonly TopicMessages[],
  partitionsOf: (topic: string) => number,
): { good: readonly TopicMessages[]; failures: SendFailure[] } {
  const missing = new Map<string, SendFailure>();
  const large = new Map<string, SendFailure & { places: number[] }>();
  const good = batch.map(({ topic, messages }) => {
    const partitions = partitionsOf(topic);
    const refused = (message: BusMessage, index: number): boolean => {
      const { partition } = message;
      if (!(partition >= 0 && partition < partitions)) {
        missing.set(`${topic}/${partition}`, { topic, partition, code: 'topic-unknown' });
        return true;
      }
      if (!isTooLarge(message)) return false;
      const failure = large.get(`${topic}/${partition}`) ?? { topic, partition, code: 'record-too-large', places: [] };
      failure.places.push(placeOf(batch, topic, messages, index));
      large.set(`${topic}/${partition}`, failure);
      return true;
    };
    let admitted: BusMessage[] | null = null;
    for (let i = 0; i < messages.length; i += 1) {
      const message = messages[i]!;
      if (refused(message, i)) admitted ??= messages.slice(0, i);
      else admitted?.push(message);
    }
    return admitted === null ? { topic, messages } : { topic, messages: admitted };
  });
  return { good, failures: [...missing.values(), ...large.values()] };
}

/** Place of a message among those of the batch for its partition. */
function placeOf(
  batch: readonly TopicMessages[],
  topic: string,
  messages: readonly BusMessage[],
  index: number,
): number {
  const { partition } = messages[index]!;
  let place = 0;
  for (const one of batch) {
    if (one.topic !== topic) continue;
    const before = one.messages === messages ? messages.slice(0, index) : one.messages;
    for (const message of before) if (message.partition === partition) place += 1;
    if (one.messages === messages) break;
  }
  return place;
}
