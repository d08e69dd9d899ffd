/**
 * Micro-benchmark of the codecs over batches of triggers as the product makes them: bytes and CPU per trigger, with the CRC, which
 * takes the fewer bytes the more they were compressed. It needs no server:
 *
 *   node bench/micro/compression.ts
 *
 * What the broker saves shows `npm run bench -- raw --envelope cloudevents --compression none|lz4|zstd`.
 */
import { type Codec, codecOf } from '../../src/adapters/kafka/compression.ts';
import { Buffers, PartitionQueue } from '../../src/adapters/kafka/partition-queue.ts';
import { EncodedTriggers } from '../../src/adapters/kafka/trigger-batch.ts';
import { type TriggerHead, triggerHead } from '../../src/core/envelope.ts';
import { jobKey, payloadText } from '../load/job-lines.ts';

const IDENTITY = { producerId: 1n, epoch: 0 };
const T0 = Date.UTC(2026, 11, 1);
const CODECS: Readonly<Record<string, Codec | null>> = {
  none: null,
  lz4: codecOf('lz4', null),
  'zstd -7': codecOf('zstd', -7),
  'zstd -3 (ours)': codecOf('zstd', null),
  'zstd 1': codecOf('zstd', 1),
  'zstd 3': codecOf('zstd', 3),
};
const BYTES_MEASURED = 1e8;

function measure(name: string, codec: Codec | null, envelope: 'compact' | 'cloudevents', records: number): void {
  const cluster = { name: 'bench', partitions: 1, envelope };
  const heads: TriggerHead[] = Array.from({ length: records }, (_, i) => {
    const job = (i * 7_919) % 1_000_003;
    const record = { key: jobKey(job), version: 1, payload: payloadText(job, 32), contentType: 'application/json' };
    return triggerHead(cluster, record, 1);
  });
  const settings = { maxBytes: Number.POSITIVE_INFINITY, codec };
  const queue = new PartitionQueue('t', 0, IDENTITY, new Buffers(), settings);
  let bytes = 0;
  let cpuUs = 0;
  let rounds = 0;
  for (let encoded = 0; encoded < BYTES_MEASURED; rounds += 1) {
    const triggers = new EncodedTriggers(() => queue);
    for (const [i, head] of heads.entries()) triggers.add('t', head, i % 100, i, T0 + rounds, T0 + rounds);
    encoded += triggers.bytes;
    const before = process.threadCpuUsage();
    while (!queue.idle) {
      const { length } = queue.next(false, IDENTITY).bytes;
      queue.acknowledged();
      if (rounds === 0) bytes += length;
    }
    const used = process.threadCpuUsage(before);
    cpuUs += used.user + used.system;
  }
  const line = {
    envelope,
    records,
    codec: name,
    bytesPerTrigger: Math.round((bytes / records) * 10) / 10,
    sealUsPerTrigger: Math.round((cpuUs / rounds / records) * 1_000) / 1_000,
  };
  console.log(JSON.stringify(line));
}

for (const [envelope, records] of [
  ['compact', 10_000],
  ['compact', 100],
  ['cloudevents', 3_000],
  ['cloudevents', 30],
] as const) {
  for (const [name, codec] of Object.entries(CODECS)) measure(name, codec, envelope, records);
}
