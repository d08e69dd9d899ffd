import { type Connection, produceV11, Writer } from '@platformatic/kafka';
import { answerIn } from './protocol-errors.ts';
import { giveBack, lendMemory, type RequestMemory } from './request-memory.ts';

/** One record batch for one partition; a request holds at most one per partition. */
export interface PartitionBytes {
  topic: string;
  partition: number;
  bytes: Buffer;
}

/**
 * Produce 12: as 11 on the wire, and by its number it says that the partitions of a transaction enter it by being written
 * to (KIP-890). All replicas in sync must have the records before the answer.
 */
const API = 0;
const VERSION = 12;
const ALL_REPLICAS = -1;
/** The broker waits this long for its replicas, in ms: less than we wait for its answer. */
const REPLICAS_WAIT_MS = 5_000;

/** Sends batches and answers the error code of each, in their order (0: it is durable). Throws when there is no answer. */
export async function produce(
  connection: Connection,
  transactionalId: string | null,
  batches: readonly PartitionBytes[],
): Promise<number[]> {
  const { promise, resolve, reject } = Promise.withResolvers<produceV11.ProduceResponse>();
  let memory: RequestMemory | null = null;
  connection.send<produceV11.ProduceResponse>(
    API,
    VERSION,
    () => {
      const request = requestOf(transactionalId, batches);
      memory = lendMemory(batches.map(({ bytes }) => bytes));
      return request;
    },
    produceV11.parseResponse,
    true,
    true,
    (error, answer) => (error === null && answer !== undefined ? resolve(answer) : reject(error)),
  );
  const answer = await promise.catch(answerIn<produceV11.ProduceResponse>);
  if (memory !== null) giveBack(memory);
  const codes = new Map<string, number>();
  for (const { name, partitionResponses } of answer.responses) {
    for (const { index, errorCode } of partitionResponses) codes.set(`${name}/${index}`, errorCode);
  }
  return batches.map(({ topic, partition }) => {
    const code = codes.get(`${topic}/${partition}`);
    if (code === undefined) throw new Error(`the broker said nothing of ${topic}/${partition}`);
    return code;
  });
}

function requestOf(transactionalId: string | null, batches: readonly PartitionBytes[]): Writer {
  const topics = Map.groupBy(batches, ({ topic }) => topic);
  return Writer.create()
    .appendString(transactionalId)
    .appendInt16(ALL_REPLICAS)
    .appendInt32(REPLICAS_WAIT_MS)
    .appendArray([...topics], (writer, [name, partitions]) => {
      writer.appendString(name).appendArray(partitions, (to, { partition, bytes }) => {
        to.appendInt32(partition).appendBytes(bytes);
      });
    })
    .appendTaggedFields();
}
