import { Writer } from '@platformatic/kafka';
import { expect, test } from 'vitest';
import { giveBack, lendMemory } from '../../../src/adapters/kafka/request-memory.ts';

const part = (bytes: number, fill: number): Buffer => Buffer.alloc(bytes, fill);
const join = (...parts: Buffer[]): Buffer => {
  const writer = Writer.create();
  for (const one of parts) writer.append(one);
  return writer.buffer;
};

test('a large request is joined in memory that was given back, and only that request', () => {
  const first = part(100_000, 1);
  const memory = lendMemory([first, part(50_000, 2)])!;
  // What another request joins meanwhile is its own.
  const other = join(part(10, 7), part(90_000, 8));
  const one = join(part(3, 9), first, part(50_000, 2));
  expect(one.equals(Buffer.concat([part(3, 9), first, part(50_000, 2)]))).toBe(true);
  // A second join of the same parts is not the lent one's.
  expect(join(part(3, 9), first).buffer).not.toBe(one.buffer);
  giveBack(memory);
  const second = part(70_000, 3);
  expect(lendMemory([second])).toBe(memory);
  const two = join(second, part(5, 4));
  expect(two.buffer).toBe(one.buffer);
  expect(two.equals(Buffer.concat([second, part(5, 4)]))).toBe(true);
  expect(other.equals(Buffer.concat([part(10, 7), part(90_000, 8)]))).toBe(true);
});

test('memory grows with the request; two that are not given back have each their own; small ones have none', () => {
  const [a, b] = [part(3_000_000, 1), part(200_000, 2)];
  lendMemory([a]);
  const one = join(a, part(1, 0));
  lendMemory([b]);
  const two = join(b, part(1, 0));
  expect(one.buffer).not.toBe(two.buffer);
  expect(one).toHaveLength(3_000_001);
  expect(one.equals(Buffer.concat([a, part(1, 0)]))).toBe(true);
  expect(lendMemory([part(1_000, 1), part(20_000, 1)])).toBeNull();
});
