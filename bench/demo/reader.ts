/**
 * The independent reader of the demos, a process of its own: it reads a topic with kafkajs (cluster mode) or the API's stream
 * (embedded), counts copies before anything is de-duplicated, and judges when it is asked. Forked; talks by messages.
 * Arguments: `kafka BROKERS TOPIC` or `http URL CLUSTER`.
 */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, logLevel } from 'kafkajs';
import { Judge, type Segment } from '../judge.ts';

/** Asks for the verdict over (fromMs, toMs]; the jobs with their rules stand in a file, as [key, segments] pairs. */
export interface JudgeRequest {
  jobsFile: string;
  fromMs: number;
  toMs: number;
}

const judge = new Judge();
/** Ends when everything that was published for times up to `toMs` has been observed. */
type CaughtUp = (toMs: number) => Promise<void>;
/** Jobs fire on behind the judged span: a trigger this far behind it says that the stream has passed it, in ms. */
const PASSED_MS = 2_000;
/** Where nothing fires any more, a stream that is silent for this long has passed it too, in ms. */
const SILENT_MS = 5_000;

async function readKafka(brokers: string[], topic: string): Promise<CaughtUp> {
  const kafka = new Kafka({ clientId: 'demo-reader', brokers, logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  const consumer = kafka.consumer({
    groupId: `demo-reader-${process.pid}`,
    readUncommitted: false,
    // The times are the broker's, so the reader may take its time: it takes the less of the machine that it measures.
    maxWaitTimeInMs: 250,
    minBytes: 256 * 1024,
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const next = new Map<number, number>();
  const joined = new Promise<void>((resolve) => {
    consumer.on(consumer.events.GROUP_JOIN, () => resolve());
  });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const { key, headers, timestamp } of batch.messages) {
        const id = headers?.['ce_id'] ?? headers?.['id'];
        judge.observe(String(key), String(id), Number(timestamp));
      }
      next.set(batch.partition, Number(batch.lastOffset()) + 1);
    },
  });
  await joined;
  return async () => {
    const ends = await admin.fetchTopicOffsets(topic);
    while (ends.some(({ partition, high }) => Number(high) > (next.get(partition) ?? 0))) await sleep(20);
  };
}

interface StreamLine {
  at?: number;
  key?: string;
  id?: string;
}

/** The time of a trigger is here that of its arrival, so the way to the reader counts as lateness. */
async function readStream(url: string, cluster: string): Promise<CaughtUp> {
  const response = await fetch(`${url}/v1/clusters/${cluster}/triggers?from=first`);
  if (!response.ok || response.body === null) throw new Error(`${response.status} ${await response.text()}`);
  let lastAt = performance.now();
  const lines = createInterface({ input: Readable.fromWeb(response.body as never) });
  lines.on('line', (text) => {
    if (text === '') return;
    const line = JSON.parse(text) as StreamLine;
    if (line.id === undefined) return;
    lastAt = performance.now();
    judge.observe(line.key ?? '', line.id, Date.now());
  });
  return async (toMs) => {
    while (judge.newestMs < toMs + PASSED_MS && performance.now() - lastAt < SILENT_MS) await sleep(50);
  };
}

async function main([kind, address, name]: string[]): Promise<void> {
  const caughtUp = kind === 'kafka' ? await readKafka(address!.split(','), name!) : await readStream(address!, name!);
  process.on('message', (request: JudgeRequest) => {
    const answer = async (): Promise<void> => {
      await caughtUp(request.toMs);
      const jobs = new Map<string, Segment[]>(JSON.parse(readFileSync(request.jobsFile, 'utf8')));
      process.send?.({ verdict: judge.verdict(jobs, request.fromMs, request.toMs) });
    };
    answer().catch((error: unknown) => process.send?.({ error: String(error) }));
  });
  process.send?.({ ready: true });
}

process.on('disconnect', () => process.exit(0));
main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
