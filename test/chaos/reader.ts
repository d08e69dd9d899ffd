/**
 * The independent reader, a process of its own: forked with a `ReaderOrder` as its first message, it reads all partitions of
 * the trigger topic read-committed, from whoever leads them, and answers a verdict for each span that it is asked for. It
 * shares no code with `src/`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, metadataV12 } from '@platformatic/kafka';
import { FetchConnection } from '../../bench/reader/fetch-connection.ts';
import { BatchReader } from '../../bench/reader/record-batches.ts';
import { type Load, ratesOf } from './load.ts';
import { type OnceSeen, Tally, type Verdict } from './tally.ts';

export interface ReaderOrder {
  brokers: readonly string[];
  topic: string;
  partitions: number;
  load: Load;
  /** Occurrences in [fromMs, fromMs + spanMs) are counted, UTC ms and ms. */
  fromMs: number;
  spanMs: number;
}

export type Ask = { verdict: { fromMs: number; toMs: number } } | { once: { from: number; upTo: number } };
export interface Answer {
  ready?: true;
  verdict?: Verdict & { read: number; foreign: number };
  once?: [number, OnceSeen][];
}

const WAIT_MS = 100;
const PAUSE_MS = 100;
const AGAIN_MS = 200;

const next: number[] = [];
let closed = false;

const said = new Set<string>();

/** What is met again and again while a broker is away is told once. */
function say(line: string): void {
  if (!said.has(line)) console.error(line);
  said.add(line);
}

/** Who leads each partition now, as `host:port`; undefined: nobody, or nobody answers. */
async function leadersOf({ brokers, topic, partitions }: ReaderOrder): Promise<(string | undefined)[]> {
  for (const broker of brokers) {
    const [host, port] = broker.split(':');
    const connection = new Connection('chaos-reader', { connectTimeout: 1_000, requestTimeout: 2_000 });
    try {
      await connection.connect(host!, Number(port));
      const answer = await metadataV12.api.async(connection, [topic], false, false);
      const address = new Map(answer.brokers.map((one) => [one.nodeId, `${one.host}:${one.port}`]));
      const found = answer.topics[0]?.partitions ?? [];
      if (found.length < partitions) continue;
      return Array.from({ length: partitions }, (_, partition) =>
        address.get(found.find(({ partitionIndex }) => partitionIndex === partition)?.leaderId ?? -1),
      );
    } catch {
      // The next one may know.
    } finally {
      await connection.close().catch(() => {});
    }
  }
  return [];
}

/** Reads the partitions of one leader until it answers otherwise, or no more. */
async function follow(order: ReaderOrder, batches: BatchReader, leader: string, own: readonly number[]): Promise<void> {
  const connection = await FetchConnection.open(leader, order.topic);
  try {
    for (let turn = 0; !closed; turn += 1) {
      // The broker fills its answer in the order of the request, so that order goes round.
      const wanted = own.map((_, i) => own[(i + turn) % own.length]!).map((p) => [p, next[p]!] as const);
      const patience = AbortSignal.timeout(5_000);
      const hangs = new Promise<never>((_, reject) => {
        patience.addEventListener('abort', () => reject(new Error('the broker does not answer')));
      });
      for (const { partition, records } of await Promise.race([connection.fetch(wanted, WAIT_MS), hangs])) {
        next[partition] = batches.read(partition, records, next[partition]!);
      }
      await sleep(PAUSE_MS);
    }
  } finally {
    connection.close();
  }
}

async function readOn(order: ReaderOrder, tally: Tally): Promise<void> {
  const batches = new BatchReader(tally);
  for (let p = 0; p < order.partitions; p += 1) next[p] = 0;
  /** Partitions that somebody follows now. */
  const followed = new Set<number>();
  while (!closed) {
    const leaders = await leadersOf(order);
    const free = leaders.map((_, p) => p).filter((p) => leaders[p] !== undefined && !followed.has(p));
    for (const [leader, own] of Map.groupBy(free, (p) => leaders[p]!)) {
      for (const p of own) followed.add(p);
      follow(order, batches, leader, own)
        .catch((error: Error) => say(`reader: ${leader}: ${error.message}`))
        .finally(() => {
          for (const p of own) followed.delete(p);
        });
    }
    await sleep(followed.size < order.partitions ? AGAIN_MS : 1_000);
  }
}

function answer(tally: Tally, ask: Ask): Answer {
  if ('verdict' in ask) {
    const { fromMs, toMs } = ask.verdict;
    return { verdict: { ...tally.verdict(fromMs, toMs), read: tally.read, foreign: tally.foreignRecords } };
  }
  const { from, upTo } = ask.once;
  return { once: [...tally.once].filter(([job]) => job >= from && job < upTo) };
}

process.once('message', (order: ReaderOrder) => {
  const tally = new Tally(ratesOf(order.load), order.fromMs, order.spanMs);
  process.on('message', (ask: Ask) => process.send?.(answer(tally, ask)));
  readOn(order, tally).catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
  process.send?.({ ready: true } satisfies Answer);
});
process.on('disconnect', () => {
  closed = true;
  process.exit(0);
});
