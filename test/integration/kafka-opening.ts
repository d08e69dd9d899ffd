import { randomUUID } from 'node:crypto';
import { afterEach, inject } from 'vitest';
import { type KafkaOptions, kafkaBus } from '../../src/adapters/kafka/bus.ts';
import type { Bus, BusMessage, BusRecord } from '../../src/ports/bus.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';

/** Null when the run has no servers; the tests are then skipped. */
export const brokers: readonly string[] | null = inject('servers')?.kafka ?? null;

const opened: { close(): Promise<unknown> }[] = [];

/** Closed after the test, whatever became of it. */
export function closing<T extends { close(): Promise<unknown> }>(one: T): T {
  opened.push(one);
  return one;
}

afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
});

export function openBus(options: Partial<KafkaOptions> = {}): Bus {
  return closing(kafkaBus({ brokers: brokers!, clientId: 'integration', ...options }, silentTelemetry));
}

export function unique(name: string): string {
  return `${name}-${randomUUID()}`;
}

export function message(key: string, value: string | Uint8Array = key, partition = 0): BusMessage {
  return { partition, key, value: typeof value === 'string' ? new TextEncoder().encode(value) : value };
}

/** Keys of all records that are committed now. */
export async function committedKeys(bus: Bus, topic: string, partition = 0): Promise<(string | null)[]> {
  return (await committed(bus, topic, partition)).map(({ key }) => key);
}

export async function committed(bus: Bus, topic: string, partition = 0): Promise<BusRecord[]> {
  const reader = await bus.reader(topic, partition, 'first');
  const records: BusRecord[] = [];
  while (!(await reader.caughtUp('written'))) records.push(...(await reader.read(1_000)));
  await reader.close();
  return records;
}
