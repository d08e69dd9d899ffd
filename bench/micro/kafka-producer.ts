/**
 * Micro-benchmark of the bus on Kafka: records per second and client CPU per record of the producer and of a reader, and ms
 * per commit of a lane. It needs a running broker:
 *
 *   npm run servers -- start --name bench --only kafka
 *   node bench/micro/kafka-producer.ts 127.0.0.1:PORT [SECONDS]
 *
 * The kafkajs and @platformatic/kafka lines send the same records through those libraries' own producers, for the choice in
 * src/DESIGN.md. One JSON object per line.
 */
import { Producer } from '@platformatic/kafka';
import { Kafka, logLevel, Partitioners } from 'kafkajs';
import { kafkaBus } from '../../src/adapters/kafka/bus.ts';
import type { Bus, BusMessage } from '../../src/ports/bus.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';

const PARTITIONS = 8;
const BATCH = 500;
const IN_FLIGHT = 4;
const VALUE = new TextEncoder().encode('x'.repeat(120));

interface Load {
  name: string;
  /** Sends this many records and answers when they are durable. */
  send: (batch: readonly BusMessage[]) => Promise<unknown>;
  batch?: number;
  inFlight?: number;
  headers?: Readonly<Record<string, string>>;
}

/** Like the headers of a trigger: CloudEvents 1.0 in binary mode. */
const HEADERS = {
  ce_specversion: '1.0',
  ce_id: '17-123456-1790000000000',
  ce_type: 'carillon.trigger.v1',
  ce_source: '/clusters/default',
  ce_subject: 'team/job-000123',
  ce_time: '2026-01-01T00:00:00.000Z',
  'content-type': 'application/json',
  ce_cluster: 'default',
  ce_jobversion: '1',
  ce_effectivetime: '2026-01-01T00:00:00.000Z',
  ce_epoch: '42',
};

function batchOf(size: number, from: number, headers: Load['headers']): BusMessage[] {
  return Array.from({ length: size }, (_, i) => ({
    partition: (from + i) % PARTITIONS,
    key: `team/job-${from + i}`,
    value: VALUE,
    ...(headers === undefined ? {} : { headers }),
  }));
}

async function measure(load: Load, seconds: number): Promise<void> {
  const { name, send, batch = BATCH, inFlight = IN_FLIGHT, headers } = load;
  for (let i = 0; i < 20; i += 1) await send(batchOf(batch, i, headers));
  const latencies: number[] = [];
  let records = 0;
  const begun = performance.now();
  const cpu = process.cpuUsage();
  const worker = async (): Promise<void> => {
    while (performance.now() - begun < seconds * 1_000) {
      const messages = batchOf(batch, records, headers);
      const sent = performance.now();
      await send(messages);
      latencies.push(performance.now() - sent);
      records += messages.length;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  const used = process.cpuUsage(cpu);
  report(name, records, performance.now() - begun, used.user + used.system, latencies);
}

function report(name: string, records: number, ms: number, cpuUs: number, latencies: number[]): void {
  const sorted = latencies.sort((a, b) => a - b);
  const at = (share: number): number =>
    round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  const line = { name, records, perSecond: Math.round(records / (ms / 1_000)), cpuUsPerRecord: round(cpuUs / records) };
  console.log(JSON.stringify({ ...line, callMs: { p50: at(0.5), p99: at(0.99), max: at(1) } }));
}

const round = (value: number): number => Math.round(value * 100) / 100;

async function ours(bus: Bus, topic: string, seconds: number): Promise<void> {
  const producer = await bus.producer();
  const send = (messages: readonly BusMessage[]): Promise<unknown> => producer.send([{ topic, messages }]);
  await measure({ name: 'producer, batches of 500', send }, seconds);
  await measure({ name: 'producer, batches of 500, 11 headers', send, headers: HEADERS }, seconds);
  await measure(
    { name: 'producer, one record per call, 500 calls on the way', send, batch: 1, inFlight: 500 },
    seconds,
  );
  await measure({ name: 'producer, one record per call, one call at a time', send, batch: 1, inFlight: 1 }, seconds);
  await producer.close();
}

async function reading(bus: Bus, topic: string): Promise<void> {
  const { end } = (await bus.offsets(topic))[0]!;
  const reader = await bus.reader(topic, 0, 'first');
  const begun = performance.now();
  const cpu = process.cpuUsage();
  let records = 0;
  while (reader.position < end) records += (await reader.read(1_000)).length;
  const used = process.cpuUsage(cpu);
  report('reader, one partition', records, performance.now() - begun, used.user + used.system, []);
  await reader.close();
}

async function lanes(bus: Bus, topic: string, seconds: number): Promise<void> {
  const lane = await bus.lane(`bench/${process.pid}`);
  const commit = (messages: readonly BusMessage[]): Promise<void> => lane.commit([{ topic, messages }]);
  await measure({ name: 'lane, 1 record per commit', send: commit, batch: 1, inFlight: 1 }, seconds);
  await measure(
    { name: 'lane, 500 records in 8 partitions per commit', send: commit, batch: 500, inFlight: 1 },
    seconds,
  );
  const offset = { group: 'bench', topic, partition: 0, next: 1 };
  const withOffset = (messages: readonly BusMessage[]): Promise<void> => lane.commit([{ topic, messages }], [offset]);
  await measure({ name: 'lane, 1 record and 1 offset per commit', send: withOffset, batch: 1, inFlight: 1 }, seconds);
  await lane.close();
}

async function libraries(broker: string, topic: string, seconds: number): Promise<void> {
  const platformatic = new Producer({ clientId: 'bench', bootstrapBrokers: [broker], idempotent: true });
  const viaPlatformatic = (messages: readonly BusMessage[]): Promise<unknown> =>
    platformatic.send({
      messages: messages.map(({ partition, key, value }) => ({
        topic,
        partition,
        key: Buffer.from(key!),
        value: Buffer.from(value!),
      })),
    });
  await measure({ name: '@platformatic/kafka Producer', send: viaPlatformatic }, seconds);
  await platformatic.close();
  const kafka = new Kafka({ brokers: [broker], clientId: 'bench', logLevel: logLevel.NOTHING });
  const kafkajs = kafka.producer({ idempotent: true, createPartitioner: Partitioners.DefaultPartitioner });
  await kafkajs.connect();
  const viaKafkajs = (messages: readonly BusMessage[]): Promise<unknown> =>
    kafkajs.send({
      topic,
      messages: messages.map(({ partition, key, value }) => ({ partition, key: key!, value: Buffer.from(value!) })),
    });
  await measure({ name: 'kafkajs producer', send: viaKafkajs }, seconds);
  await kafkajs.disconnect();
}

const [broker, seconds = '3'] = process.argv.slice(2);
if (broker === undefined) {
  console.error('give the address of a broker: node bench/micro/kafka-producer.ts 127.0.0.1:PORT [SECONDS]');
  process.exit(2);
}
const bus = kafkaBus({ brokers: [broker], clientId: 'bench' }, silentTelemetry);
const topic = `bench-${process.pid}`;
await bus.ensureTopics([{ name: topic, partitions: PARTITIONS, retentionBytes: 64 * 1024 * 1024 }]);
try {
  await ours(bus, topic, Number(seconds));
  await reading(bus, topic);
  await lanes(bus, topic, Number(seconds));
  await libraries(broker, topic, Number(seconds));
} finally {
  await bus.deleteTopics([topic]);
  await bus.close();
}
