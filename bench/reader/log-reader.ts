import { FetchConnection } from './fetch-connection.ts';
import { BatchReader, type LogSink } from './record-batches.ts';

/**
 * Reads all partitions of a topic from their beginning, read-committed. One broker leads them all, as in every benchmark of
 * one machine. Partitions are read side by side, so that at any time about the same span of each has been seen.
 */
export class LogReader {
  readonly #connection: FetchConnection;
  readonly #batches: BatchReader;
  readonly #next: number[];
  readonly #end: number[];
  #turn = 0;
  bytes = 0;

  private constructor(connection: FetchConnection, partitions: number, sink: LogSink) {
    this.#connection = connection;
    this.#batches = new BatchReader(sink);
    this.#next = Array.from({ length: partitions }, () => 0);
    this.#end = Array.from({ length: partitions }, () => 0);
  }

  static async open(broker: string, topic: string, partitions: number, sink: LogSink): Promise<LogReader> {
    return new LogReader(await FetchConnection.open(broker, topic), partitions, sink);
  }

  /** Reads what one Fetch brings; answers whether it brought anything. Waits for more up to `waitMs`. */
  async readSome(waitMs: number): Promise<boolean> {
    const all = this.#next.length;
    // The broker fills its answer in the order of the request, so that order goes round.
    this.#turn = (this.#turn + 1) % all;
    const wanted = this.#next.map((_, i) => (i + this.#turn) % all).map((p) => [p, this.#next[p]!] as const);
    let any = false;
    for (const { partition, lastStable, records } of await this.#connection.fetch(wanted, waitMs)) {
      const before = this.#next[partition]!;
      this.bytes += records.length;
      this.#next[partition] = this.#batches.read(partition, records, before);
      this.#end[partition] = lastStable;
      any ||= this.#next[partition] !== before;
    }
    return any;
  }

  /** Records that were committed at the last look and are not read yet. */
  get behind(): number {
    return this.#end.reduce((sum, end, p) => sum + Math.max(0, end - this.#next[p]!), 0);
  }

  /** Reads until everything that is committed has been seen. */
  async readAll(): Promise<void> {
    do while (await this.readSome(0));
    while (this.#next.some((next, p) => next < this.#end[p]!));
  }

  close(): void {
    this.#connection.close();
  }
}
