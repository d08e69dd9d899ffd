import { type Connection, fetchV12, IS_CONTROL, IS_TRANSACTIONAL, type RecordsBatch } from '@platformatic/kafka';
import type { BusRecord } from '../../ports/bus.ts';
import { answerIn } from './protocol-errors.ts';

export interface Fetched {
  code: number;
  /** Committed records at or after the offset that was asked for. */
  records: BusRecord[];
  /** Offset to ask for next: after everything that came, with aborted records and marks of transactions. */
  next: number;
}

const READ_COMMITTED = 1;
const MIN_BYTES = 1;
/** Of one partition in an answer; a larger batch comes whole all the same, so no record is too large to be read. */
const PARTITION_BYTES = 1024 * 1024;
/** Of one answer. */
const MAX_BYTES = 4 * 1024 * 1024;
/** No incremental fetch session: each request names the one partition. */
const NO_SESSION = 0;
const FINAL_EPOCH = -1;

/** Asks for records of one partition and waits up to `waitMs` at the broker until there is one. */
export async function fetchFrom(
  connection: Connection,
  topic: string,
  partition: number,
  offset: number,
  waitMs: number,
): Promise<Fetched> {
  return (await fetchFromMany(connection, topic, [{ partition, offset }], waitMs)).get(partition)!;
}

/** The same for several partitions with one request, which is answered as soon as one of them has a record. */
export async function fetchFromMany(
  connection: Connection,
  topic: string,
  wanted: readonly { partition: number; offset: number }[],
  waitMs: number,
): Promise<Map<number, Fetched>> {
  const asked = {
    topicId: topic,
    partitions: wanted.map(({ partition, offset }) => ({
      partition,
      currentLeaderEpoch: -1,
      fetchOffset: BigInt(offset),
      lastFetchedEpoch: -1,
      partitionMaxBytes: PARTITION_BYTES,
    })),
  };
  const maxBytes = Math.min(MAX_BYTES, wanted.length * PARTITION_BYTES);
  const answer = await fetchV12.api
    .async(connection, waitMs, MIN_BYTES, maxBytes, READ_COMMITTED, NO_SESSION, FINAL_EPOCH, [asked], [], '')
    .catch(answerIn<fetchV12.FetchResponse>);
  const answered = new Map(answer.responses[0]?.partitions.map((one) => [one.partitionIndex, one]));
  return new Map(
    wanted.map(({ partition, offset }) => {
      const found = answered.get(partition);
      if (found === undefined) return [partition, { code: answer.errorCode, records: [], next: offset }];
      const aborted = (found.abortedTransactions ?? []).map(({ producerId, firstOffset }) => ({
        producerId,
        firstOffset: Number(firstOffset),
      }));
      return [partition, { code: found.errorCode, ...committedOf(partition, found.records ?? [], aborted, offset) }];
    }),
  );
}

/**
 * Leaves out what transactions took back. The broker names the aborted transactions that reach into the answer by producer
 * and first offset; each ends at its producer's next mark, so a producer may be named several times. A batch belongs to one
 * producer. The first batch may begin before the offset that was asked for.
 */
function committedOf(
  partition: number,
  batches: readonly RecordsBatch[],
  abortedTransactions: readonly { producerId: bigint; firstOffset: number }[],
  offset: number,
): { records: BusRecord[]; next: number } {
  const records: BusRecord[] = [];
  const waiting = [...abortedTransactions].sort((a, b) => b.firstOffset - a.firstOffset);
  const aborted = new Set<bigint>();
  let next = offset;
  for (const batch of batches) {
    const first = Number(batch.firstOffset);
    const last = first + batch.lastOffsetDelta;
    while (waiting.length > 0 && waiting.at(-1)!.firstOffset <= last) aborted.add(waiting.pop()!.producerId);
    if ((batch.attributes & IS_CONTROL) !== 0) aborted.delete(batch.producerId);
    else if ((batch.attributes & IS_TRANSACTIONAL) === 0 || !aborted.has(batch.producerId)) {
      addRecords(records, partition, batch, offset);
    }
    next = Math.max(next, last + 1);
  }
  return { records, next };
}

/** Bit 3 of the attributes: the time is the broker's, and one for the whole batch. */
const BROKER_TIME = 1 << 3;

function addRecords(to: BusRecord[], partition: number, batch: RecordsBatch, from: number): void {
  const first = Number(batch.firstOffset);
  const brokerMs = (batch.attributes & BROKER_TIME) === 0 ? null : Number(batch.maxTimestamp);
  const firstMs = Number(batch.firstTimestamp);
  for (const { offsetDelta, timestampDelta, key, value, headers } of batch.records) {
    const offset = first + offsetDelta;
    if (offset < from) continue;
    const named: Record<string, string> = {};
    for (const [name, text] of headers) if (name !== null) named[name.toString()] = text?.toString() ?? '';
    to.push({
      offset,
      partition,
      timestampMs: brokerMs ?? firstMs + Number(timestampDelta),
      key: key?.toString() ?? null,
      value,
      headers: named,
    });
  }
}
