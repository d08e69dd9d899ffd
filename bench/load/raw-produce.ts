/**
 * The raw produce limit of a broker: as many records a second as it takes from the product's encoder, on all partitions of a
 * topic with the settings of the trigger topic, acks=all, idempotent. Nothing is timed, kept or read: what a scheduler could
 * make at best if scheduling cost nothing.
 */
import { Connection, initProducerIdV5 } from '@platformatic/kafka';
import { produce } from '../../src/adapters/kafka/produce.ts';
import { RecordBatchEncoder } from '../../src/adapters/kafka/record-batch.ts';
import { triggerHead, triggerMessage } from '../../src/core/envelope.ts';
import { executionId } from '../../src/core/job.ts';
import type { BusMessage } from '../../src/ports/bus.ts';
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

/** A broker works off one connection's requests in turn, so several keep its threads busy. */
const CONNECTIONS = 4;
const ON_THE_WAY = 2;
const BATCH_BYTES = 400_000;
const JOBS = 10_000;
/** A new broker compiles itself anew under load: what it takes before is not counted, in ms. */
const WARM_UP_MS = 3_000;

export async function rawProduce(load: RawLoad): Promise<RawResult> {
  const pools = messagesByPartition(load);
  const state = { records: 0, bytes: 0, until: performance.now() + WARM_UP_MS + load.seconds * 1_000 };
  const streams = Array.from({ length: Math.min(CONNECTIONS, pools.length) }, (_, own) =>
    stream(
      load,
      pools.map((messages, partition) => ({ messages, partition })).filter((_, p) => p % CONNECTIONS === own),
      state,
    ),
  );
  const warm = new Promise<{ records: number; bytes: number; at: number; cpu: NodeJS.CpuUsage }>((resolve) => {
    setTimeout(() => resolve({ ...state, at: performance.now(), cpu: process.cpuUsage() }), WARM_UP_MS);
  });
  const from = await warm;
  await Promise.all(streams);
  const cpu = process.cpuUsage(from.cpu);
  const seconds = (performance.now() - from.at) / 1_000;
  const records = state.records - from.records;
  return {
    per_s: Math.round(records / seconds),
    mb_per_s: Math.round((state.bytes - from.bytes) / seconds / 1e5) / 10,
    client_cpu_us: Math.round(((cpu.user + cpu.system) / records) * 1_000) / 1_000,
  };
}

/** Triggers as the engine makes them, sorted to their partitions. */
function messagesByPartition({ topic, envelope, payloadBytes }: RawLoad): BusMessage[][] {
  const cluster = { name: 'bench', partitions: topic.partitions, envelope };
  const pools: BusMessage[][] = Array.from({ length: topic.partitions }, () => []);
  const nowMs = Date.now();
  for (let job = 0; job < JOBS; job += 1) {
    const record = {
      key: jobKey(job),
      version: 1,
      payload: payloadText(job, payloadBytes),
      contentType: 'application/json',
    };
    const message = triggerMessage(triggerHead(cluster, record, 1), executionId(100, job, nowMs), nowMs, nowMs);
    pools[message.partition]!.push(message);
  }
  return pools;
}

interface Share {
  messages: readonly BusMessage[];
  partition: number;
}

/** One connection with its share of the partitions; a request has a batch for each of them. */
async function stream(
  { broker, topic }: RawLoad,
  shares: readonly Share[],
  state: { records: number; bytes: number; until: number },
): Promise<void> {
  const [host, port] = broker.split(':');
  const connection = new Connection('bench-raw');
  await connection.connect(host!, Number(port));
  const { producerId, producerEpoch } = await initProducerIdV5.api.async(connection, null, 0);
  const identity = { producerId, epoch: producerEpoch };
  const encoder = new RecordBatchEncoder();
  const sequences = shares.map(() => 0);
  const encode = ({ messages, partition }: Share, i: number) => {
    encoder.begin(Date.now());
    for (let n = 0; encoder.append(messages[n % messages.length]!, BATCH_BYTES); n += 1);
    const bytes = encoder.finish(identity, sequences[i]!, false);
    sequences[i]! += encoder.count;
    state.records += encoder.count;
    state.bytes += bytes.length;
    return { topic: topic.name, partition, bytes };
  };
  const sending = async (): Promise<void> => {
    while (performance.now() < state.until) {
      const codes = await produce(connection, null, shares.map(encode));
      const wrong = codes.find((code) => code !== 0);
      if (wrong !== undefined) throw new Error(`the broker refused a batch with the error code ${wrong}`);
    }
  };
  try {
    await Promise.all(Array.from({ length: ON_THE_WAY }, sending));
  } finally {
    await connection.close();
  }
}
