/**
 * Kafka's default partitioner: murmur2 (seed 0x9747b28c) over the UTF-8 bytes of the key, sign bit masked, modulo the
 * number of partitions, as in the Java client (org.apache.kafka.common.utils.Utils.murmur2).
 */
const encoder = new TextEncoder();

export function murmur2(data: Uint8Array): number {
  const m = 0x5bd1e995;
  const length = data.length;
  let h = (0x9747b28c ^ length) | 0;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    let k = data[i]! | (data[i + 1]! << 8) | (data[i + 2]! << 16) | (data[i + 3]! << 24) | 0;
    k = Math.imul(k, m);
    k ^= k >>> 24;
    k = Math.imul(k, m);
    h = Math.imul(h, m) ^ k;
  }
  const left = length - i;
  if (left >= 3) h ^= data[i + 2]! << 16;
  if (left >= 2) h ^= data[i + 1]! << 8;
  if (left >= 1) {
    h ^= data[i]!;
    h = Math.imul(h, m);
  }
  h ^= h >>> 13;
  h = Math.imul(h, m);
  h ^= h >>> 15;
  return h;
}

export function partitionOf(key: string, partitions: number): number {
  return (murmur2(encoder.encode(key)) & 0x7fffffff) % partitions;
}
