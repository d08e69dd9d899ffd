import type { CarillonError } from '../../core/errors.ts';
import type { SendFailure } from '../../ports/bus.ts';

/** One call of `send`: it is answered when every record of it is durable or failed. */
export class Delivery {
  readonly startedMs = performance.now();
  /** Whether it waits for a partition without a leader as long as anything is waited for; else its records fail there. */
  readonly waits: boolean;
  readonly #done = Promise.withResolvers<SendFailure[]>();
  readonly #failures = new Map<string, SendFailure>();
  /** Records that are neither durable nor failed; while they come in, less those that are refused at once. */
  #open = 0;
  #asked = false;
  #error: CarillonError | null = null;

  constructor(waits: boolean) {
    this.waits = waits;
  }

  /** Answers when all of so many records are. To be called once, before any of them is sent. */
  answer(records: number): Promise<SendFailure[]> {
    this.#asked = true;
    this.acknowledged(-records);
    return this.#done.promise;
  }

  /** Failures that are certain before anything was sent. */
  get failures(): SendFailure[] {
    return [...this.#failures.values()];
  }

  acknowledged(records: number): void {
    this.#open -= records;
    if (!this.#asked || this.#open > 0) return;
    if (this.#error === null) this.#done.resolve(this.failures);
    else this.#done.reject(this.#error);
  }

  /** These records failed, for certain; of `record-too-large` they are named, since the others go out. */
  refused(
    topic: string,
    partition: number,
    code: SendFailure['code'],
    { first, count }: Pick<Chunk, 'first' | 'count'>,
  ): void {
    const key = `${topic}/${partition}/${code}`;
    const own = Array.from({ length: count }, (_, i) => first + i);
    const places = [...(this.#failures.get(key)?.places ?? []), ...own];
    const failure = { topic, partition, code };
    this.#failures.set(key, code === 'record-too-large' ? { ...failure, places } : failure);
    this.acknowledged(count);
  }

  /** What became of these records is not known, or they failed in a way that nobody can mend record by record. */
  failed(records: number, error: CarillonError): void {
    this.#error ??= error;
    this.acknowledged(records);
  }
}

/** Records of one delivery for one partition that stand beside each other in a batch. */
export interface Chunk {
  delivery: Delivery;
  /** Place of the first of them among the records of the delivery for this partition. */
  first: number;
  count: number;
}

/** Parts chunks before the `at`th record of all. */
export function partChunks(chunks: readonly Chunk[], at: number): [Chunk[], Chunk[]] {
  const [before, after]: [Chunk[], Chunk[]] = [[], []];
  let left = at;
  for (const chunk of chunks) {
    const { delivery, first, count } = chunk;
    const here = Math.min(left, count);
    if (here > 0) before.push({ delivery, first, count: here });
    if (here < count) after.push({ delivery, first: first + here, count: count - here });
    left -= here;
  }
  return [before, after];
}
