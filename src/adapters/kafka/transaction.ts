import {
  type Connection,
  endTxnV4,
  type Reader,
  ResponseError,
  txnOffsetCommitV4,
  type Writer,
} from '@platformatic/kafka';
import type { GroupHolder, GroupOffset } from '../../ports/bus.ts';
import type { Identity } from './record-batch.ts';

/**
 * Requests of transaction version 2 (KIP-890), which the library does not have yet. They say by their version number that
 * partitions and groups enter a transaction by being written to, and each end gives the id a new epoch, so a late request of
 * an older transaction is refused.
 */
const END_TXN = { key: 26, version: 5 };
const TXN_OFFSET_COMMIT = { key: 28, version: 5 };
/** An offset without a holder belongs to no generation of the group: then the transactional id alone is the fence. */
const NOBODY: GroupHolder = { generation: -1, member: '' };

/** Ends the transaction; a repeat with the same identity answers the same. Answers the identity of the next one. */
export function endTransaction(
  connection: Connection,
  id: string,
  { producerId, epoch }: Identity,
  commit: boolean,
): Promise<Identity> {
  return send(connection, END_TXN, () => endTxnV4.createRequest(id, producerId, epoch, commit), endTxnAnswer);
}

/** EndTxn 5 => throttle_time_ms INT32, error_code INT16, producer_id INT64, producer_epoch INT16, tags. */
function endTxnAnswer(_correlation: number, key: number, version: number, reader: Reader): Identity {
  reader.readInt32();
  const code = reader.readInt16();
  if (code !== 0) throw new ResponseError(key, version, { '/': [code, null] }, null);
  return { producerId: reader.readInt64(), epoch: reader.readInt16() };
}

/**
 * Stores offsets of one group in the open transaction. The coordinator refuses those of a holder whose generation is over
 * (KIP-447); whoever holds the partitions then waits, when it asks for the offset, for what is stored and not decided.
 */
export async function storeOffsets(
  connection: Connection,
  id: string,
  { producerId, epoch }: Identity,
  group: string,
  offsets: readonly GroupOffset[],
): Promise<void> {
  const topics = [...Map.groupBy(offsets, ({ topic }) => topic)].map(([name, own]) => ({
    name,
    partitions: own.map(({ partition, next }) => ({
      partitionIndex: partition,
      committedOffset: BigInt(next),
      committedLeaderEpoch: -1,
    })),
  }));
  const { generation, member } = offsets[0]?.holder ?? NOBODY;
  const request = (): Writer =>
    txnOffsetCommitV4.createRequest(id, group, producerId, epoch, generation, member, null, topics);
  await send(connection, TXN_OFFSET_COMMIT, request, txnOffsetCommitV4.parseResponse);
}

function send<T>(
  connection: Connection,
  { key, version }: { key: number; version: number },
  request: () => Writer,
  parse: (correlation: number, key: number, version: number, reader: Reader) => T,
): Promise<T> {
  return new Promise((resolve, reject) => {
    connection.send<T>(key, version, request, parse, true, true, (error, answer) =>
      error === null ? resolve(answer as T) : reject(error),
    );
  });
}
