import type { CarillonError } from '../../core/errors.ts';
import type { SendFailure } from '../../ports/bus.ts';

/** One call of `send`: it is answered when every record of it is durable or failed. */
export class Delivery {
  readonly startedMs = performance.now();
  /** Whether it waits for a partition without a leader as for anything, and fails as a whole; else partitions fail by themselves. */
  readonly waits: boolean;
  readonly #done = Promise.withResolvers<SendFailure[]>();
  readonly #failures = new Map<string, SendFailure>();
  readonly #unknown = new Map<string, SendFailure>();
  #durable = 0;
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
    this.#settled(-records);
    return this.#done.promise;
  }

  /** Failures that are certain before anything was sent. */
  get failures(): SendFailure[] {
    return [...this.#failures.values()];
  }

  acknowledged(records: number): void {
    this.#durable += records;
    this.#settled(records);
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
    this.#settled(count);
  }

  /** What became of these records is not known, or they failed in a way that nobody can mend record by record. */
  failed(topic: string, partition: number, records: number, error: CarillonError): void {
    if (this.#error === null || error.code !== 'unavailable') this.#error = error;
    this.#unknown.set(`${topic}/${partition}`, { topic, partition, code: 'outcome-unknown' });
    this.#settled(records);
  }

  /** Where others are durable, one partition that is not stands for itself; where none is, the whole call has failed. */
  #settled(records: number): void {
    this.#open -= records;
    if (!this.#asked || this.#open > 0) return;
    const partial = !this.waits && this.#durable > 0 && this.#error?.code === 'unavailable';
    if (this.#error === null || partial) this.#done.resolve([...this.#failures.values(), ...this.#unknown.values()]);
    else this.#done.reject(this.#error);
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
