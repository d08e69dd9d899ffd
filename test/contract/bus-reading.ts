import type { Bus, BusMessage, BusReader, BusRecord, TopicSpec } from '../../src/ports/bus.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function message(partition: number, key: string | null, value: string | null): BusMessage {
  return { partition, key, value: value === null ? null : encoder.encode(value) };
}

export function textOf(record: BusRecord): string | null {
  return record.value === null ? null : decoder.decode(record.value);
}

/** `PREFIX-0` to `PREFIX-(n-1)` in one partition. */
export function numbered(partition: number, prefix: string, n: number): BusMessage[] {
  return Array.from({ length: n }, (_, i) => message(partition, `key-${i}`, `${prefix}-${i}`));
}

export async function makeTopic(
  bus: Bus,
  name: string,
  partitions = 1,
  spec: Partial<TopicSpec> = {},
): Promise<string> {
  await bus.ensureTopics([{ name, partitions, ...spec }]);
  return name;
}

/** Reads on until `n` records are there; the time limit of the test is what ends a wait for records that never come. */
export async function readCount(reader: BusReader, n: number): Promise<BusRecord[]> {
  const records: BusRecord[] = [];
  while (records.length < n) records.push(...(await reader.read(1_000)));
  return records;
}

/** Everything committed in a partition when this is called, from an offset on. */
export async function readAll(
  bus: Bus,
  topic: string,
  partition = 0,
  from: number | 'first' = 'first',
): Promise<BusRecord[]> {
  const reader = await bus.reader(topic, partition, from);
  try {
    const records: BusRecord[] = [];
    while (!(await reader.caughtUp('written'))) records.push(...(await reader.read(1_000)));
    return records;
  } finally {
    await reader.close();
  }
}

export async function textsOf(bus: Bus, topic: string, partition = 0): Promise<(string | null)[]> {
  return (await readAll(bus, topic, partition)).map(textOf);
}

export async function sendAll(bus: Bus, topic: string, messages: readonly BusMessage[]): Promise<void> {
  const producer = await bus.producer();
  const failures = await producer.send([{ topic, messages }]);
  await producer.close();
  if (failures.length > 0) throw new Error(`not sent: ${JSON.stringify(failures)}`);
}

/** A promise and the function that fulfils it: tests wait for what happens, not for time. */
export function happening<T = void>(): { happened: Promise<T>; tell: (value: T) => void } {
  const { promise, resolve } = Promise.withResolvers<T>();
  return { happened: promise, tell: resolve };
}
