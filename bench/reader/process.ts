/**
 * The independent reader of the benchmarks, a process of its own: forked with a `ReadOrder` as its first message. It reads
 * the log whole when it is told to finish, or, with `live`, while the run goes on, and answers the verdict.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Histogram } from '../judge/histogram.ts';
import { type Counts, Tally, type TallyPlan } from '../judge/tally.ts';
import { LogReader } from './log-reader.ts';

export interface ReadOrder {
  broker: string;
  topic: string;
  partitions: number;
  plan: TallyPlan;
  /** Read from now on, and settle turns as they pass. */
  live: boolean;
}

export interface ReadVerdict {
  counts: Counts;
  lateness: Pick<Histogram, 'counts' | 'count' | 'max'>;
  series: Pick<Histogram, 'counts' | 'count' | 'max'>[];
  lostSeries: Uint32Array;
  lastAtMs: number;
  /** How the reading itself went. */
  reading: { seconds: number; bytes: number };
}

/** Turns older than this are settled while reading live, in ms: nothing can come later, as a misfire is none any more. */
const SETTLE_AFTER_MS = 60_000;
const SETTLE_EVERY_MS = 5_000;
const TELL_EVERY_MS = 60_000;
/** A reader that is further behind than this has not seen all of what it would judge. */
const SETTLE_BEHIND = 1_000_000;
const LIVE_WAIT_MS = 500;
/** While reading live, answers are let grow: the reader takes the less of the machine that it measures. */
const LIVE_PAUSE_MS = 200;

let finish = false;

async function run(order: ReadOrder): Promise<ReadVerdict> {
  const { broker, topic, partitions, plan } = order;
  const tally = new Tally(plan);
  const reader = await LogReader.open(broker, topic, partitions, tally);
  process.send?.({ ready: true });
  const begun = performance.now();
  let nextSettleMs = Date.now() + SETTLE_EVERY_MS;
  let nextTellMs = Date.now() + TELL_EVERY_MS;
  while (order.live && !finish) {
    await reader.readSome(LIVE_WAIT_MS);
    if (Date.now() > nextSettleMs && reader.behind < SETTLE_BEHIND) {
      tally.settle(Date.now() - SETTLE_AFTER_MS);
      nextSettleMs = Date.now() + SETTLE_EVERY_MS;
    }
    if (Date.now() > nextTellMs) {
      process.send?.({ progress: tally.counts });
      nextTellMs = Date.now() + TELL_EVERY_MS;
    }
    await sleep(LIVE_PAUSE_MS);
  }
  await reader.readAll();
  reader.close();
  const plain = ({ counts, count, max }: Histogram) => ({ counts, count, max });
  return {
    counts: tally.finish(),
    lateness: plain(tally.lateness),
    series: tally.series.map(plain),
    lostSeries: tally.lostSeries,
    lastAtMs: tally.lastAtMs,
    reading: { seconds: (performance.now() - begun) / 1_000, bytes: reader.bytes },
  };
}

process.once('message', (order: ReadOrder) => {
  process.on('message', () => {
    finish = true;
  });
  run(order).then(
    (verdict) => process.send?.({ verdict }, () => process.disconnect()),
    (error: unknown) => process.send?.({ error: String(error) }, () => process.exit(1)),
  );
});
process.on('disconnect', () => process.exit(0));
