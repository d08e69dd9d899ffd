import { Kafka, logLevel, Partitioners } from 'kafkajs';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { makeTopic } from '../../bench/installation/topic.ts';
import { type Grid, phaseOf } from '../../bench/judge/grid.ts';
import { jobKey } from '../../bench/load/job-lines.ts';
import { Reader, readWhole } from '../../bench/reader/reader.ts';

const servers = inject('servers');

/** The reader of the benchmarks against a real broker, with what another library's producer writes. */
describe.skipIf(servers === null)('the reader of the benchmarks', () => {
  const broker = servers?.kafka[0] ?? '';
  const kafka = new Kafka({ clientId: 'bench-test', brokers: [broker], logLevel: logLevel.NOTHING });
  const plain = kafka.producer({ idempotent: true, createPartitioner: Partitioners.DefaultPartitioner });
  const lane = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    transactionalId: `bench-test-${process.pid}`,
    createPartitioner: Partitioners.DefaultPartitioner,
  });
  const anchorMs = Math.floor(Date.now() / 1_000) * 1_000 - 10_000;
  const grid: Grid = { jobs: 500, periodMs: 1_000, anchorMs, phases: 'even', startMs: anchorMs };
  const plan = { grid, fromMs: anchorMs - 1, toMs: anchorMs + 2_999, stepMs: 1_000 };

  const turn = (k: number, jobs: readonly number[]) =>
    jobs.map((job) => ({
      key: jobKey(job),
      value: '{}',
      headers: { id: `1-${job + 1}-${anchorMs + phaseOf(grid, job) + k * 1_000}` },
    }));
  const all = Array.from({ length: grid.jobs }, (_, job) => job);

  beforeAll(async () => {
    await plain.connect();
    await lane.connect();
  });
  afterAll(async () => {
    await plain.disconnect();
    await lane.disconnect();
  });

  it('judges by the time at which the broker appended', async () => {
    const topic = `bench-plain-${process.pid}`;
    await makeTopic(broker, {
      name: topic,
      partitions: 3,
      brokerTime: true,
      compression: 'none',
      retentionBytes: null,
    });
    const before = Date.now();
    for (const k of [0, 1, 2]) await plain.send({ topic, messages: turn(k, k === 1 ? all.slice(7) : all) });
    await plain.send({ topic, messages: turn(2, [3, 4]) });
    const after = Date.now();
    const { counts, lateness, lastAtMs } = await readWhole({ broker, topic, partitions: 3, plan });
    expect(counts).toMatchObject({ read: 1_495, expected: 1_500, fired: 1_495, lost: 7, duplicated: 2, early: 0 });
    expect(lastAtMs).toBeGreaterThanOrEqual(before);
    expect(lastAtMs).toBeLessThanOrEqual(after);
    expect(lateness.max).toBeLessThanOrEqual(after - anchorMs);
  });

  it('judges transactions by their marks, and does not see what was taken back', async () => {
    const topic = `bench-lane-${process.pid}`;
    await makeTopic(broker, {
      name: topic,
      partitions: 3,
      brokerTime: false,
      compression: 'none',
      retentionBytes: null,
    });
    let committingMs = 0;
    for (const k of [0, 1, 2]) {
      const aborted = await lane.transaction();
      await aborted.send({ topic, messages: turn(k, all.slice(0, 100)) });
      await aborted.abort();
      const committed = await lane.transaction();
      await committed.send({ topic, messages: turn(k, all) });
      committingMs = Date.now();
      await committed.commit();
    }
    const { counts, lastAtMs } = await readWhole({ broker, topic, partitions: 3, plan });
    expect(counts).toMatchObject({ expected: 1_500, fired: 1_500, lost: 0, duplicated: 0, aborted_triggers: 300 });
    expect(lastAtMs).toBeGreaterThanOrEqual(committingMs);
  });

  it('reads while the run goes on, in a ring of turns', async () => {
    const topic = `bench-live-${process.pid}`;
    await makeTopic(broker, {
      name: topic,
      partitions: 2,
      brokerTime: true,
      compression: 'none',
      retentionBytes: null,
    });
    const order = { broker, topic, partitions: 2, live: true, plan: { ...plan, window: 4 } };
    const reader = new Reader(order);
    try {
      await reader.ready();
      for (const k of [0, 1, 2]) await plain.send({ topic, messages: turn(k, all.slice(k)) });
      const { counts } = await reader.verdict();
      expect(counts).toMatchObject({ expected: 1_500, fired: 1_497, lost: 3, duplicated: 0 });
    } finally {
      reader.stop();
    }
  });

  it('does not see a transaction that is still open', async () => {
    const topic = `bench-open-${process.pid}`;
    await makeTopic(broker, {
      name: topic,
      partitions: 1,
      brokerTime: false,
      compression: 'none',
      retentionBytes: null,
    });
    const open = await lane.transaction();
    await open.send({ topic, messages: turn(0, all) });
    const { counts } = await readWhole({ broker, topic, partitions: 1, plan });
    expect(counts).toMatchObject({ read: 0, fired: 0, lost: 1_500 });
    await open.abort();
  });
});
