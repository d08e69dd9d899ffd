/**
 * The raw produce limit of a broker: as many records a second as it takes from the product's encoder, on all partitions of a
 * topic with the settings of the trigger topic, acks=all, idempotent. Nothing is timed, kept or read: what a scheduler could
 * make at best if scheduling cost nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { kafkaBus } from '../../src/adapters/kafka/bus.ts';
import { type TriggerHead, triggerHead } from '../../src/core/envelope.ts';
import type { Bus } from '../../src/ports/bus.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import type { TopicPlan } from '../installation/topic.ts';
import { jobKey, payloadText } from './job-lines.ts';

export interface RawLoad {
  broker: string;
  topic: TopicPlan;
  envelope: 'compact' | 'cloudevents';
  payloadBytes: number;
  seconds: number;
}

export interface RawResult {
  per_s: number;
  mb_per_s: number;
  /** CPU of this process per record, in us: the encoder and the socket. */
  client_cpu_us: number;
}

/** A broker works off one connection's requests in turn, so several producers keep its threads busy. */
const PRODUCERS = 4;
/** Triggers of one send, over the producer's partitions, and sends that wait beside the one on its way. */
const BATCH = 20_000;
const WAITING = 1;
const JOBS = 40_000;
const SHARD = 100;
/** A new broker compiles itself anew under load: what it takes before is not counted, in ms. */
const WARM_UP_MS = 3_000;

interface Counted {
  records: number;
  bytes: number;
}

export async function rawProduce(load: RawLoad): Promise<RawResult> {
  const bus = kafkaBus({ brokers: [load.broker], clientId: 'bench-raw' }, silentTelemetry);
  try {
    const heads = headsByPartition(load);
    const counted: Counted = { records: 0, bytes: 0 };
    const untilMs = performance.now() + WARM_UP_MS + load.seconds * 1_000;
    const producers = Math.min(PRODUCERS, heads.length);
    const streams = Array.from({ length: producers }, (_, own) => {
      const mine = heads.filter((_, partition) => partition % producers === own);
      return stream(bus, load.topic.name, mine, counted, untilMs);
    });
    await Promise.race([sleep(WARM_UP_MS), Promise.all(streams)]);
    const from = { ...counted, at: performance.now(), cpu: process.cpuUsage() };
    await Promise.all(streams);
    const cpu = process.cpuUsage(from.cpu);
    const seconds = (performance.now() - from.at) / 1_000;
    const records = counted.records - from.records;
    return {
      per_s: Math.round(records / seconds),
      mb_per_s: Math.round((counted.bytes - from.bytes) / seconds / 1e5) / 10,
      client_cpu_us: Math.round(((cpu.user + cpu.system) / records) * 1_000) / 1_000,
    };
  } finally {
    await bus.close();
  }
}

interface Job {
  number: number;
  head: TriggerHead;
}

/** Jobs as the engine knows them, sorted to their partitions. */
function headsByPartition({ topic, envelope, payloadBytes }: RawLoad): Job[][] {
  const cluster = { name: 'bench', partitions: topic.partitions, envelope };
  const jobs: Job[][] = Array.from({ length: topic.partitions }, () => []);
  for (let number = 0; number < JOBS; number += 1) {
    const payload = payloadText(number, payloadBytes);
    const record = { key: jobKey(number), version: 1, payload, contentType: 'application/json' };
    const head = triggerHead(cluster, record, 1);
    jobs[head.partition]!.push({ number, head });
  }
  return jobs;
}

/** One producer with its share of the partitions, a send always ready behind the one on its way. */
async function stream(
  bus: Bus,
  topic: string,
  partitions: readonly (readonly Job[])[],
  counted: Counted,
  untilMs: number,
): Promise<void> {
  const producer = await bus.producer();
  const jobs = partitions.flat();
  let next = 0;
  const sending = async (): Promise<void> => {
    while (performance.now() < untilMs) {
      const batch = producer.triggers?.();
      if (batch === undefined) throw new Error('this bus takes no triggers as bytes');
      const nominalMs = Date.now();
      for (let i = 0; i < BATCH; i += 1) {
        const { number, head } = jobs[next++ % jobs.length]!;
        batch.add(topic, head, SHARD, number, nominalMs, nominalMs);
      }
      const { count, bytes } = batch;
      const failures = await producer.send(batch.toMessages());
      if (failures.length > 0) throw new Error(`the broker refused a batch: ${JSON.stringify(failures)}`);
      counted.records += count;
      counted.bytes += bytes;
    }
  };
  try {
    await Promise.all(Array.from({ length: 1 + WAITING }, sending));
  } finally {
    await producer.close();
  }
}
