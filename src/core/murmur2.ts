/**
 * Kafka's default partitioner: murmur2 (seed 0x9747b28c) over the UTF-8 bytes of the key, sign bit masked, modulo the
 * number of partitions, as in the Java client (org.apache.kafka.common.utils.Utils.murmur2).
 */

/** A key is encoded here: bytes of its own for each took 9 % of a worker's CPU where each trigger is of another job (m). */
const scratch = Buffer.alloc(1_024);

export function murmur2(data: Uint8Array, length = data.length): number {
  const m = 0x5bd1e995;
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
  // A UTF-16 unit has at most 3 bytes of UTF-8.
  const fits = key.length * 3 <= scratch.length;
  const hash = fits ? murmur2(scratch, scratch.write(key)) : murmur2(Buffer.from(key));
  return (hash & 0x7fffffff) % partitions;
}
