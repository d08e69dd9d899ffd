import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Block, BlockReader, BlockWriter } from '../../../src/adapters/sqlite/block.ts';
import type { BusMessage } from '../../../src/ports/bus.ts';

function written(messages: readonly BusMessage[]): Block[] {
  const writer = new BlockWriter();
  for (const message of messages) writer.append(message);
  const blocks = [...writer.blocks()].map(({ bytes, records }) => ({ bytes: Uint8Array.from(bytes), records }));
  writer.release();
  return blocks;
}

/** Records of blocks as they are shown to a reader, from the `skip`th of each block on. */
function read(blocks: readonly Block[], skip = 0) {
  return blocks.flatMap(({ bytes, records }) => {
    const reader = new BlockReader(bytes);
    reader.skip(Math.min(skip, records));
    const all = Array.from({ length: Math.max(0, records - skip) }, () => reader.next(3, 0, 0));
    expect(reader.position).toBe(bytes.length);
    return all.map(({ key, value, headers }) => ({
      key,
      value: value === null ? null : [...value],
      headers: { ...headers },
    }));
  });
}

const shown = ({ key, value, headers }: BusMessage) => ({
  key,
  value: value === null ? null : [...value],
  headers: { ...headers },
});

test('the example of the format', () => {
  const [block, ...others] = written([{ partition: 0, key: 'ab', value: null, headers: { id: '7' } }]);
  expect(others).toEqual([]);
  expect(Buffer.from(block!.bytes).toString('hex')).toBe('0a04616201020469640237');
});

const text = fc.string({ unit: 'grapheme', maxLength: 100 });
const messages = fc.array(
  fc.record({
    partition: fc.constant(0),
    key: fc.option(text),
    value: fc.option(fc.uint8Array({ maxLength: 300 })),
    headers: fc.dictionary(
      text.filter((name) => name !== '__proto__'),
      text,
      { maxKeys: 5 },
    ),
  }),
  { maxLength: 100 },
);

test('what is written is read, from any record on', () => {
  fc.assert(
    fc.property(messages, fc.nat(100), (all, skip) => {
      const blocks = written(all);
      expect(read(blocks)).toEqual(all.map(shown));
      expect(read(blocks.slice(0, 1), skip)).toEqual(all.slice(skip).map(shown));
    }),
  );
});

test('blocks are bounded; a record that is larger stands alone, and buffers are used again', () => {
  const sized = (bytes: number): BusMessage => ({
    partition: 0,
    key: null,
    value: new Uint8Array(bytes).fill(bytes % 251),
  });
  for (let round = 0; round < 3; round += 1) {
    const all = [...Array.from({ length: 40 }, (_, i) => sized(i * 400)), sized(500_000), sized(1), sized(131_060)];
    const blocks = written(all);
    expect(read(blocks)).toEqual(all.map(shown));
    const large = blocks.filter(({ bytes }) => bytes.length > 128 * 1024);
    expect(large.map(({ records }) => records)).toEqual([1]);
    expect(blocks.length).toBeLessThan(8);
  }
});
