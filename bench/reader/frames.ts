/** Writes the fields of a request of Kafka's protocol (big-endian), after room for its length. */
export class FrameWriter {
  readonly #bytes: Buffer;
  #at = 4;

  constructor(sizeMost: number) {
    this.#bytes = Buffer.alloc(sizeMost);
  }

  int8(value: number): this {
    this.#at = this.#bytes.writeInt8(value, this.#at);
    return this;
  }

  int16(value: number): this {
    this.#at = this.#bytes.writeInt16BE(value, this.#at);
    return this;
  }

  int32(value: number): this {
    this.#at = this.#bytes.writeInt32BE(value, this.#at);
    return this;
  }

  int64(value: number): this {
    this.#at = this.#bytes.writeBigInt64BE(BigInt(value), this.#at);
    return this;
  }

  text(value: string): this {
    this.int16(Buffer.byteLength(value));
    this.#at += this.#bytes.write(value, this.#at);
    return this;
  }

  finish(): Buffer {
    this.#bytes.writeInt32BE(this.#at - 4, 0);
    return this.#bytes.subarray(0, this.#at);
  }
}

/** Reads the fields of an answer, in their order. */
export class FrameReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  int16(): number {
    this.#at += 2;
    return this.#bytes.readInt16BE(this.#at - 2);
  }

  int32(): number {
    this.#at += 4;
    return this.#bytes.readInt32BE(this.#at - 4);
  }

  int64(): number {
    this.#at += 8;
    return Number(this.#bytes.readBigInt64BE(this.#at - 8));
  }

  skip(bytes: number): void {
    this.#at += bytes;
  }

  /** Bytes with their length before them; -1 is none. */
  bytes(): Buffer {
    const length = Math.max(0, this.int32());
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}
