/**
 * Micro-benchmark of the hot path: CPU per trigger from the wheel to the acknowledgement, with the slot runner and the Kafka
 * encoder as they are and a broker that costs nothing (each batch is sealed, CRC included, and acknowledged at once). It needs
 * no server:
 *
 *   node bench/micro/hot-path.ts [JOBS] [compact|cloudevents] [SECONDS]
 *
 * The clock is moved by 5 ms a round. One JSON object per line.
 */
import { Buffers, PartitionQueue } from '../../src/adapters/kafka/partition-queue.ts';
import { EncodedTriggers } from '../../src/adapters/kafka/trigger-batch.ts';
import { manualClock } from '../../src/adapters/memory/clock.ts';
import { memoryStores } from '../../src/adapters/memory/stores.ts';
import type { Job } from '../../src/core/job.ts';
import { LIMITS } from '../../src/core/limits.ts';
import { TOPICS } from '../../src/core/topics.ts';
import { SlotRunner } from '../../src/engine/firing/slot.ts';
import type { BusProducer } from '../../src/ports/bus.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';

const T0 = Date.UTC(2026, 11, 1);
const PARTITIONS = 8;
const PERIOD_MS = 1_000;
const ROUND_MS = 5;
const IDENTITY = { producerId: 1n, epoch: 0 };
const PAYLOAD = '{"order":123456,"text":"abcdef"}';

/** Batches are sealed and acknowledged in the next turn of the event loop. */
function producerWithoutBroker(): BusProducer & { bytes: number } {
  const buffers = new Buffers();
  const queues = Array.from({ length: PARTITIONS }, (_, p) => new PartitionQueue('t', p, IDENTITY, buffers));
  const producer = {
    bytes: 0,
    triggers: () => new EncodedTriggers((_, partition) => queues[partition]!),
    async send(batch: Parameters<BusProducer['send']>[0]) {
      const triggers = batch.find((one) => one instanceof EncodedTriggers);
      if (triggers === undefined) return [];
      const answer = triggers.delivery.answer(triggers.count);
      setImmediate(() => {
        for (const queue of queues) {
          while (!queue.idle) {
            producer.bytes += queue.next(false, IDENTITY).bytes.length;
            queue.acknowledged();
          }
        }
      });
      return await answer;
    },
    close: async () => {},
  };
  return producer;
}

async function measure(jobCount: number, envelope: 'compact' | 'cloudevents', seconds: number): Promise<void> {
  const clock = manualClock(T0);
  const stores = memoryStores(clock);
  const { bus, catalog, jobs, shards } = stores;
  await bus.ensureTopics([
    ...[TOPICS.fast, TOPICS.progress, TOPICS.cursors].map((name) => ({ name, partitions: 2 })),
    { name: TOPICS.answers, partitions: 1 },
  ]);
  const delivery = 'at-least-once' as const;
  await catalog.createCluster({ name: 'c', topic: 't', partitions: PARTITIONS, envelope, delivery, createdMs: T0 });
  const count = Math.ceil(jobCount / LIMITS.shardJobs);
  const each = Math.ceil(jobCount / count);
  await shards.create(
    Array.from({ length: count }, (_, id) => ({
      id,
      delivery,
      slot: 0,
      state: 'open' as const,
      jobs: each,
      nextNumber: each,
      triggersPerSecond: 0,
      saturated: false,
    })),
  );
  for (let shard = 0; shard < count; shard += 1) {
    const own = Array.from({ length: each }, (_, number): Job => {
      const anchorMs = T0 + 1_000 + ((number * 7_919 + shard) % PERIOD_MS);
      const id = shard * each + number;
      return {
        cluster: 'c',
        key: `team/job-${id}`,
        shard,
        number,
        version: 1,
        state: 'enabled',
        createdMs: T0,
        updatedMs: T0,
        cutMs: T0,
        schedule: { kind: 'rate', everyMs: PERIOD_MS, anchorMs },
        bounds: {},
        misfire: { mode: 'once' },
        payload: PAYLOAD,
        contentType: 'application/json',
        position: { partition: 0, offset: id },
        lastChange: { id: `r${id}`, result: 'created' },
      };
    });
    await jobs.insertMany(own);
  }
  const producer = producerWithoutBroker();
  const runner = new SlotRunner({
    stores,
    clock,
    telemetry: silentTelemetry,
    installation: { id: 'i', slotsPerSet: 1 },
    delivery,
    slot: 0,
    epoch: 1,
    incarnation: 'w',
    producer,
    misfireAfterMs: 10_000,
    trusted: () => true,
  });
  const through = async <T>(step: Promise<T>): Promise<T> => {
    let over = false;
    const end = step.finally(() => {
      over = true;
    });
    while (!over) await clock.advance(0);
    return await end;
  };
  const heapBefore = process.memoryUsage();
  await through(runner.adopt());
  // The first owner of a slot makes its shards from the job store.
  while (await through(runner.rebuild()));
  const heapAfter = process.memoryUsage();
  let cpuUs = 0;
  let triggersFired = 0;
  let worstRoundMs = 0;
  const bytesBefore = producer.bytes;
  for (let ms = 0; ms < seconds * 1_000; ms += ROUND_MS) {
    await clock.advance(ROUND_MS);
    if (ms % 1_000 === 0) await through(runner.scan(clock.wallMs()));
    const before = process.threadCpuUsage();
    const begun = performance.now();
    let fired = 0;
    for (;;) {
      const n = runner.tick(clock.wallMs());
      if (n === 0) break;
      fired += n;
      await runner.settled();
    }
    const used = process.threadCpuUsage(before);
    if (ms < 3_000) continue;
    worstRoundMs = Math.max(worstRoundMs, performance.now() - begun);
    cpuUs += used.user + used.system;
    triggersFired += fired;
  }
  const line = {
    jobs: jobCount,
    envelope,
    triggers: triggersFired,
    cpuUsPerTrigger: Math.round((cpuUs / triggersFired) * 1_000) / 1_000,
    bytesPerTrigger: Math.round((producer.bytes - bytesBefore) / Math.max(1, runner.published)),
    worstRoundMs: Math.round(worstRoundMs),
    heapBytesPerJob: Math.round((heapAfter.heapUsed - heapBefore.heapUsed) / jobCount),
    outsideBytesPerJob: Math.round((heapAfter.arrayBuffers - heapBefore.arrayBuffers) / jobCount),
  };
  console.log(JSON.stringify(line));
}

const [jobs = '200000', envelope = 'compact', seconds = '10'] = process.argv.slice(2);
await measure(Number(jobs), envelope === 'cloudevents' ? 'cloudevents' : 'compact', Number(seconds));
