import type { CarillonError } from '../../core/errors.ts';
import type { BusMessage, SendFailure } from '../../ports/bus.ts';

/** One call of `send`: it is answered when every record of it is durable or failed. */
export class Delivery {
  readonly startedMs = performance.now();
  readonly #done = Promise.withResolvers<SendFailure[]>();
  readonly #failures = new Map<string, SendFailure>();
  readonly #total: number;
  #open: number;
  #error: CarillonError | null = null;

  constructor(records: number) {
    this.#total = records;
    this.#open = records;
    if (records === 0) this.#done.resolve([]);
  }

  get answer(): Promise<SendFailure[]> {
    return this.#done.promise;
  }

  get records(): number {
    return this.#total;
  }

  acknowledged(records: number): void {
    this.#open -= records;
    if (this.#open > 0) return;
    if (this.#error === null) this.#done.resolve([...this.#failures.values()]);
    else this.#done.reject(this.#error);
  }

  /** These records failed, for certain; of `record-too-large` they are named, since the others go out. */
  refused(topic: string, partition: number, code: SendFailure['code'], messages: readonly BusMessage[]): void {
    const key = `${topic}/${partition}/${code}`;
    const records = [...(this.#failures.get(key)?.records ?? []), ...messages];
    const failure = { topic, partition, code };
    this.#failures.set(key, code === 'record-too-large' ? { ...failure, records } : failure);
    this.acknowledged(messages.length);
  }

  /** What became of these records is not known, or they failed in a way that nobody can mend record by record. */
  failed(records: number, error: CarillonError): void {
    this.#error ??= error;
    this.acknowledged(records);
  }
}

/** Records of one delivery for one partition, in order. */
export interface Chunk {
  delivery: Delivery;
  messages: readonly BusMessage[];
}

export function recordsIn(chunks: readonly Chunk[]): number {
  return chunks.reduce((sum, { messages }) => sum + messages.length, 0);
}
