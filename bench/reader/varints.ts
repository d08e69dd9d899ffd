/**
 * A position in bytes that moves as it is read. Kafka's records are chains of varints (zigzag, 7 bits a byte, low bits
 * first), so the position stands in one place, and reading makes no object.
 */
export class Cursor {
  bytes: Uint8Array = new Uint8Array(0);
  at = 0;

  /** A signed varint of at most 32 bits. */
  varint(): number {
    const raw = this.unsigned();
    return (raw >>> 1) ^ -(raw & 1);
  }

  unsigned(): number {
    const bytes = this.bytes;
    let byte = bytes[this.at++]!;
    let raw = byte & 0x7f;
    for (let shift = 7; byte > 0x7f; shift += 7) {
      byte = bytes[this.at++]!;
      raw |= (byte & 0x7f) << shift;
    }
    return raw;
  }

  /** Passes over a varint of any length. */
  skipVarint(): void {
    while (this.bytes[this.at++]! > 0x7f);
  }
}
