/** A queue of entry numbers in one growing ring, without an allocation per entry. */
export class Fifo {
  private ring = new Int32Array(1_024);
  private first = 0;
  length = 0;

  push(entry: number): void {
    if (this.length === this.ring.length) this.grow();
    this.ring[(this.first + this.length) % this.ring.length] = entry;
    this.length += 1;
  }

  /** The oldest one, or -1. */
  shift(): number {
    if (this.length === 0) return -1;
    const entry = this.ring[this.first]!;
    this.first = (this.first + 1) % this.ring.length;
    this.length -= 1;
    return entry;
  }

  at(index: number): number {
    return this.ring[(this.first + index) % this.ring.length]!;
  }

  private grow(): void {
    const wider = new Int32Array(this.ring.length * 2);
    for (let i = 0; i < this.length; i += 1) wider[i] = this.at(i);
    this.ring = wider;
    this.first = 0;
  }
}
