import fc from 'fast-check';
import { type Codec, codecOf } from '../../../src/adapters/kafka/compression.ts';
import { type Identity, RecordBatchEncoder } from '../../../src/adapters/kafka/record-batch.ts';
import type { BusMessage } from '../../../src/ports/bus.ts';

/** Codecs by the name that others give them. */
export const CODECS: Readonly<Record<string, Codec | null>> = {
  none: null,
  lz4: codecOf('lz4', null),
  zstd: codecOf('zstd', null),
};

/** A batch as it is given to the encoder. */
export interface AnyBatch {
  messages: readonly BusMessage[];
  timestampMs: number;
  identity: Identity;
  sequence: number;
  transactional: boolean;
  codec: string;
}

export const anyText = fc.string({ unit: 'grapheme', maxLength: 300 });
const anyMessage = fc.record({
  partition: fc.constant(0),
  key: fc.option(anyText),
  value: fc.option(fc.oneof(fc.uint8Array({ maxLength: 400 }), fc.constant(new Uint8Array(5_000).fill(7)))),
  headers: fc.dictionary(anyText, anyText, { maxKeys: 12, noNullPrototype: true }),
});
export const anyBatch: fc.Arbitrary<AnyBatch> = fc.record({
  messages: fc.array(anyMessage, { minLength: 1, maxLength: 40 }),
  timestampMs: fc.integer({ min: 0, max: 4_102_444_800_000 }),
  identity: fc.record({
    producerId: fc.bigInt({ min: 0n, max: 2n ** 62n }),
    epoch: fc.integer({ min: 0, max: 32_767 }),
  }),
  sequence: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
  transactional: fc.boolean(),
  codec: fc.constantFrom(...Object.keys(CODECS)),
});

/** As the product encodes it; a copy. */
export function encoded({ messages, timestampMs, identity, sequence, transactional, codec }: AnyBatch): Buffer {
  const encoder = new RecordBatchEncoder();
  encoder.begin(timestampMs);
  for (const message of messages) {
    if (!encoder.append(message, Number.MAX_SAFE_INTEGER)) throw new Error('the encoder refused a record');
  }
  return Buffer.from(encoder.seal(identity, sequence, transactional, CODECS[codec]!));
}
