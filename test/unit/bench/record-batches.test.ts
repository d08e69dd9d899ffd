import { gzipSync, zstdCompressSync } from 'node:zlib';
import { compressionsAlgorithms } from '@platformatic/kafka';
import { describe, expect, it } from 'vitest';
import { BatchReader, type LogSink, NoBrokerTime } from '../../../bench/reader/record-batches.ts';
import { batch, cloudEvent, compact, mark } from './batches.ts';

const T = 1_790_000_000_000;

class Seen implements LogSink {
  said: string[] = [];
  trigger(job: number, nominalMs: number, atMs: number, transaction: number): void {
    this.said.push(`${job}@${nominalMs - T} at ${atMs - T}${transaction === -1 ? '' : ` in ${transaction}`}`);
  }
  foreign(): void {
    this.said.push('foreign');
  }
  ended(transaction: number, committed: boolean, atMs: number): void {
    this.said.push(`${transaction} ${committed ? 'committed' : 'aborted'} at ${atMs - T}`);
  }
}

function read(bytes: Buffer, from = 0, partition = 0): { said: string[]; next: number } {
  const seen = new Seen();
  const next = new BatchReader(seen).read(partition, bytes, from);
  return { said: seen.said, next };
}

describe('record batches', () => {
  it('reads job, nominal time and the broker time of compact triggers and of CloudEvents', () => {
    const bytes = batch({ base: 0, atMs: T + 9, records: [compact(17, T + 3), cloudEvent(123_456_789, T + 4)] });
    expect(read(bytes)).toEqual({ said: ['17@3 at 9', '123456789@4 at 9'], next: 2 });
  });

  it('reads chains of batches, leaves out what stands before the offset, and leaves a batch that is cut short', () => {
    const first = batch({ base: 10, atMs: T, records: [compact(1, T), compact(2, T), compact(3, T)] });
    const second = batch({ base: 13, atMs: T + 1, records: [compact(4, T)] });
    expect(read(Buffer.concat([first, second]), 12)).toEqual({ said: ['3@0 at 0', '4@0 at 1'], next: 14 });
    expect(read(Buffer.concat([first, second.subarray(0, -1)]), 10).next).toBe(13);
    expect(read(first.subarray(0, 40), 10)).toEqual({ said: [], next: 10 });
  });

  it('names a transaction by producer and partition, and tells how its mark ends it', () => {
    const bytes = Buffer.concat([
      batch({ base: 0, atMs: T, records: [compact(1, T)], producer: 5, transactional: true, producerTime: true }),
      mark(1, 5, true, T + 20),
      batch({ base: 2, atMs: T, records: [compact(2, T)], producer: 6, transactional: true, producerTime: true }),
      mark(3, 6, false, T + 30),
    ]);
    const id = (producer: number, partition: number): number => producer * 4096 + partition;
    expect(read(bytes, 0, 7)).toEqual({
      said: [
        `1@0 at 0 in ${id(5, 7)}`,
        `${id(5, 7)} committed at 20`,
        `2@0 at 0 in ${id(6, 7)}`,
        `${id(6, 7)} aborted at 30`,
      ],
      next: 4,
    });
  });

  it('refuses the time of the producer outside of transactions', () => {
    const bytes = batch({ base: 0, atMs: T, records: [compact(1, T)], producerTime: true });
    expect(() => read(bytes)).toThrow(NoBrokerTime);
  });

  it('tells of records that are no triggers: other keys, ids of other forms, no id', () => {
    const records = [
      { key: 'no digits', headers: { id: `1-2-${T}` } },
      { key: null, headers: { id: `1-2-${T}` } },
      { key: 'job-1', headers: {} },
      { key: 'job-1', headers: { id: `1-2-${T}-fby-hand` } },
      { key: 'job-1', headers: { id: `1-${T}` } },
      { key: 'job-1', headers: { xid: `1-2-${T}`, grid: `1-2-${T}` } },
    ];
    expect(read(batch({ base: 0, atMs: T, records })).said).toEqual(records.map(() => 'foreign'));
  });

  it.each([
    ['gzip', 1, (bytes: Buffer) => gzipSync(bytes)],
    ['lz4', 3, (bytes: Buffer) => Buffer.from(compressionsAlgorithms.lz4.compressSync(bytes))],
    ['zstd', 4, (bytes: Buffer) => zstdCompressSync(bytes)],
  ] as const)('reads %s', (_, codec, compress) => {
    const records = Array.from({ length: 5_000 }, (_, job) => cloudEvent(job, T + job));
    const { said, next } = read(batch({ base: 0, atMs: T, records, codec, compress }));
    expect(next).toBe(5_000);
    expect(said[4_999]).toBe('4999@4999 at 0');
    expect(new Set(said).size).toBe(5_000);
  });

  it('refuses a codec that it does not know', () => {
    expect(() => read(batch({ base: 0, atMs: T, records: [compact(1, T)], codec: 2 }))).toThrow('codec 2');
  });
});
