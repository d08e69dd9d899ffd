/** What happened last, for whoever looks at a seed that failed. */
export class Trace {
  readonly #notes: { atMs: number; text: string }[] = [];
  readonly #most: number;

  constructor(most = 400) {
    this.#most = most;
  }

  note(atMs: number, text: string): void {
    this.#notes.push({ atMs, text });
    if (this.#notes.length > 2 * this.#most) this.#notes.splice(0, this.#most);
  }

  lines(): string[] {
    return this.#notes.slice(-this.#most).map(({ atMs, text }) => `${(atMs / 1_000).toFixed(3).padStart(9)} ${text}`);
  }
}
