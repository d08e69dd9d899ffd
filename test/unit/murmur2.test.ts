import { readFileSync } from 'node:fs';
import { Partitioners } from 'kafkajs';
import { expect, test } from 'vitest';
import { murmur2, partitionOf } from '../../src/core/murmur2.ts';

const encoder = new TextEncoder();
const keys: string[] = readFileSync(new URL('../cases/cases.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => JSON.parse(line))
  .find(({ id }) => id === 'O-KF-02').input.keys;

test('murmur2 gives the values that Kafka publishes with its own tests', () => {
  // org.apache.kafka.common.utils.UtilsTest.testMurmur2
  const published: [string, number][] = [
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107],
  ];
  expect(published.map(([text]) => murmur2(encoder.encode(text)))).toEqual(published.map(([, hash]) => hash));
});

test.each([
  [12, [3, 5, 4, 9, 11]],
  [24, [3, 5, 4, 9, 23]],
  [32, [19, 29, 4, 25, 7]],
])('O-KF-02: keys go to the partitions of the Java client, of %i', (partitions, expected) => {
  expect(keys.map((key) => partitionOf(key, partitions))).toEqual(expected);
});

test('O-KF-02: kafkajs agrees on every key', () => {
  const partitioner = Partitioners.DefaultPartitioner();
  for (const partitions of [1, 7, 12, 24, 32, 100]) {
    const partitionMetadata = Array.from({ length: partitions }, (_, partitionId) => ({
      partitionId,
      partitionErrorCode: 0,
      leader: 0,
      replicas: [],
      isr: [],
    }));
    // An empty key is left out: kafkajs takes it for no key at all, and we send no record with one.
    for (const key of [
      ...keys.filter((one) => one !== ''),
      ...Array.from({ length: 500 }, (_, i) => `schlüssel/${i}`),
    ]) {
      const theirs = partitioner({ topic: 't', partitionMetadata, message: { key, value: null } });
      expect(partitionOf(key, partitions), key).toBe(theirs);
    }
  }
});

test('O-KF-02: 120,000 keys spread over 12 partitions within 1.5 %', () => {
  const counts = new Array<number>(12).fill(0);
  for (let i = 0; i < 120_000; i += 1) counts[partitionOf(`job-${i}`, 12)]! += 1;
  expect(Math.min(...counts)).toBe(9_859);
  expect(Math.max(...counts)).toBe(10_131);
});
