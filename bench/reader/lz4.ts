/**
 * Reads an LZ4 frame (https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md and lz4_Block_format.md). Checksums are
 * passed over: the batch around it has one of its own.
 */
const MAGIC = 0x184d2204;
const RAW_BLOCK = 0x8000_0000;
const LEAST_MATCH = 4;

/** @throws Error for anything that is no such frame, cut short included */
export function lz4Frame(bytes: Buffer): Uint8Array {
  if (bytes.readUInt32LE(0) !== MAGIC) throw new Error('no LZ4 frame');
  const flags = bytes[4]!;
  const blockChecksum = (flags & 0x10) !== 0;
  // After the flags: one byte of block size, the content's size (8) and dictionary (4) where flagged, one of checksum.
  let at = 4 + 2 + ((flags & 0x08) !== 0 ? 8 : 0) + ((flags & 0x01) !== 0 ? 4 : 0) + 1;
  const out = new Output(bytes.length * 4);
  for (;;) {
    const head = bytes.readUInt32LE(at);
    at += 4;
    if (head === 0) return out.bytes.subarray(0, out.at);
    const size = (head & ~RAW_BLOCK) >>> 0;
    const block = bytes.subarray(at, at + size);
    if (block.length < size) throw new Error('an LZ4 block is cut short');
    if (head >= RAW_BLOCK) out.append(block, 0, size);
    else readBlock(block, out);
    at += size + (blockChecksum ? 4 : 0);
  }
}

class Output {
  bytes: Uint8Array;
  at = 0;

  constructor(size: number) {
    this.bytes = new Uint8Array(Math.max(size, 1024));
  }

  append(from: Uint8Array, start: number, length: number): void {
    this.#room(length);
    this.bytes.set(from.subarray(start, start + length), this.at);
    this.at += length;
  }

  /** A match may reach into what it writes itself, so it goes byte by byte. */
  repeat(distance: number, length: number): void {
    if (distance === 0 || distance > this.at) throw new Error('an LZ4 match lies before the beginning');
    this.#room(length);
    const { bytes } = this;
    let at = this.at;
    for (const end = at + length; at < end; at += 1) bytes[at] = bytes[at - distance]!;
    this.at = at;
  }

  #room(length: number): void {
    if (this.at + length <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(this.bytes.length * 2, this.at + length));
    larger.set(this.bytes.subarray(0, this.at));
    this.bytes = larger;
  }
}

function readBlock(block: Uint8Array, out: Output): void {
  let at = 0;
  /** 15 says that bytes follow, each to be added, up to one below 255. */
  const lengthFrom = (nibble: number): number => {
    let length = nibble;
    if (nibble === 15) {
      let byte = 255;
      while (byte === 255) {
        if (at >= block.length) throw new Error('an LZ4 block is cut short');
        byte = block[at++]!;
        length += byte;
      }
    }
    return length;
  };
  while (at < block.length) {
    const token = block[at++]!;
    const literals = lengthFrom(token >> 4);
    if (at + literals > block.length) throw new Error('an LZ4 block is cut short');
    out.append(block, at, literals);
    at += literals;
    // The last sequence of a block has literals only.
    if (at >= block.length) return;
    if (at + 2 > block.length) throw new Error('an LZ4 block is cut short');
    const distance = block[at]! | (block[at + 1]! << 8);
    at += 2;
    out.repeat(distance, lengthFrom(token & 0x0f) + LEAST_MATCH);
  }
}
