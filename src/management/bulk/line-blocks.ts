import { createHash } from 'node:crypto';
import { LIMITS } from '../../core/limits.ts';

/** Some whole lines of a stream, cut where a line ends. */
export interface LineBlock {
  /** Each line ends with \n. */
  bytes: Uint8Array;
  /** Number of the first line, from 1, and how many there are. */
  firstLine: number;
  lines: number;
  /** Running SHA-256 (hex) of the stream up to the end of this block; where blocks are cut does not matter. */
  hash: string;
}

/** Bytes and lines after which a block is closed: large enough for a batch, small enough for a thread's turn. */
const BLOCK_BYTES = 256 * 1024;
const BLOCK_LINES = 1_000;
const NEWLINE = 10;

/** Hash of an empty stream. */
export const EMPTY_HASH = createHash('sha256').digest('hex');

/**
 * Cuts a stream into blocks of whole lines. At most one block and one line are in memory; nothing is read before the block
 * is taken. A block ends after line `cutAfter`, so that the hash at that line is known. Of a line that is longer than the
 * limit only as much is kept as shows that it is; it is a block of its own.
 */
export async function* lineBlocks(
  stream: AsyncIterable<Uint8Array>,
  cutAfter: number,
): AsyncGenerator<LineBlock, void, undefined> {
  const hash = createHash('sha256');
  let firstLine = 1;
  const block = (bytes: Uint8Array, lines: number, source: Uint8Array = bytes): LineBlock => {
    const made = { bytes, firstLine, lines, hash: hash.update(source).copy().digest('hex') };
    firstLine += lines;
    return made;
  };

  /** What is kept of a line that is too long, until its end. */
  let long: Buffer | null = null;
  let rest: Buffer = EMPTY;
  for await (const chunk of stream) {
    rest = rest.length === 0 ? asBuffer(chunk) : Buffer.concat([rest, chunk]);
    if (long !== null) {
      const end = rest.indexOf(NEWLINE) + 1;
      if (end > 0) yield block(ended(long), 1, rest.subarray(0, end));
      else hash.update(rest);
      rest = end > 0 ? rest.subarray(end) : EMPTY;
      if (end > 0) long = null;
    }
    // A line that is not ended needs more bytes; looking at it again with each chunk would be slow only for long lines.
    let start = 0;
    let lines = 0;
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE, end + 1)) {
      lines += 1;
      const full = lines === BLOCK_LINES || end + 1 - start >= BLOCK_BYTES;
      if (!full && firstLine + lines - 1 !== cutAfter) continue;
      yield block(rest.subarray(start, end + 1), lines);
      start = end + 1;
      lines = 0;
    }
    const last = rest.lastIndexOf(NEWLINE) + 1;
    if (lines > 0) yield block(rest.subarray(start, last), lines);
    rest = rest.subarray(last);
    if (rest.length > LIMITS.bodyBytes) {
      long = Buffer.from(rest.subarray(0, LIMITS.bodyBytes + 1));
      hash.update(rest);
      rest = EMPTY;
    }
  }
  if (long !== null) yield block(ended(long), 1, NEWLINE_BYTES);
  else if (rest.length > 0) yield block(ended(rest), 1);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const EMPTY = Buffer.alloc(0);
const NEWLINE_BYTES = Buffer.from([NEWLINE]);

function ended(line: Uint8Array): Buffer {
  return Buffer.concat([line, NEWLINE_BYTES]);
}
