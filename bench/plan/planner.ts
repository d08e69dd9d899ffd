/**
 * The capacity planner: from the cost of each stage to how many of each part an installation needs. Everything is linear in
 * jobs, rate and bytes, with a stated head-room; what is not measured is named as assumed.
 */
import type { Costs } from './costs.ts';

export interface Need {
  jobs: number;
  /** Triggers per second, the average of the busiest minute. */
  rate: number;
  payloadBytes: number;
}

/** What machines are like, and what is kept free. Change it here for other machines. */
export const ASSUMED = {
  /** Part of a core, a link or a memory that is planned to be used: the rest is for bursts, takeovers and compaction. */
  usedPart: 0.6,
  wheelsPerWorker: 4,
  /** A wheel is one thread; its worker's other threads take this much more. */
  workerCoresPerWheel: 1.25,
  coresPerBroker: 8,
  /** The raw limit was measured with the producer on the other core of two. */
  rawBrokerCores: 1,
  /** Copies of each trigger, the leader's included. A follower's append is taken to cost as much as the leader's. */
  replicas: 3,
  /** Groups that read each trigger; a read is taken to cost a broker a fifth of an append. */
  consumers: 1,
  readPart: 0.2,
  retentionS: 3_600,
  /** Bytes/s of a broker's link (25 Gbit/s) and disk. */
  linkBytes: 3_125_000_000,
  diskBytes: 1_000_000_000,
  redisNodeBytes: 16e9,
  redisReplicas: 1,
  /** Partitions whose leader is on one broker: enough to keep its threads busy. */
  partitionsPerBroker: 8,
} as const;

/** Limits of the product (src/core/limits.ts and settings.ts), which a plan must keep. */
export const PRODUCT = {
  shardJobs: 10_000,
  shardTriggersPerS: 20_000,
  slotsPerSetMost: 256,
  freePart: 0.2,
} as const;

export interface Plan {
  wheels: number;
  workers: number;
  workerCores: number;
  slots: number;
  shards: number;
  partitions: number;
  brokers: number;
  redisNodes: number;
  redisGb: number;
  mongodbDiskGb: number;
  kafkaDiskGb: number;
  kafkaInMbS: number;
  kafkaOutMbS: number;
  registerMinutes: number;
  /** What the need is beyond; empty when all fits. */
  beyond: string[];
  /** Which of the bounds decides the number of brokers, and of shards. */
  decides: { brokers: string; shards: string };
}

export function plan(need: Need, costs: Costs): Plan {
  const { jobs, rate, payloadBytes } = need;
  const a = ASSUMED;
  const up = (value: number): number => Math.max(1, Math.ceil(value - 1e-9));

  const wheels = up((rate * costs.workerUs.value) / 1e6 / a.usedPart);
  // One worker more than the load needs: its death must not fill the others.
  const workers = up(wheels / a.wheelsPerWorker) + 1;
  const byJobs = (jobs * (1 + PRODUCT.freePart)) / PRODUCT.shardJobs;
  const byRate = rate / (PRODUCT.shardTriggersPerS * a.usedPart);
  const shards = Math.max(8, up(byJobs), up(byRate));
  // Two slots a wheel at least, so that load can be evened out; a power of two, as it is never changed.
  const slots = 2 ** Math.ceil(Math.log2(Math.max(8, wheels * 2)));

  const bytes = payloadBytes + costs.envelopeBytes.value;
  const copies = a.replicas + a.consumers * a.readPart;
  const reasons: Record<string, number> = {
    cpu: (rate * costs.kafkaUs.value * copies) / 1e6 / a.usedPart / a.coresPerBroker,
    raw: (rate * copies * a.rawBrokerCores) / (costs.rawPerS.value * a.usedPart * a.coresPerBroker),
    network: (rate * bytes * (a.replicas + a.consumers)) / (a.linkBytes * a.usedPart),
    disk: (rate * bytes * a.replicas) / (a.diskBytes * a.usedPart),
    copies: a.replicas,
  };
  const brokers = up(Math.max(...Object.values(reasons)));

  const redisBytes = jobs * (costs.redisBytes.value + payloadBytes);
  const redisByMemory = redisBytes / (a.redisNodeBytes * a.usedPart);
  const redisByCpu = (rate * costs.redisUs.value) / 1e6 / a.usedPart;
  const redisMasters = up(Math.max(redisByMemory, redisByCpu));

  const beyond: string[] = [];
  if (slots > PRODUCT.slotsPerSetMost) {
    const parts = Math.ceil(slots / PRODUCT.slotsPerSetMost);
    beyond.push(`${slots} slots are more than the ${PRODUCT.slotsPerSetMost} of a set: ${parts} installations`);
  }
  return {
    wheels,
    workers,
    workerCores: up(wheels * a.workerCoresPerWheel),
    slots: Math.min(slots, PRODUCT.slotsPerSetMost),
    shards,
    partitions: Math.max(8, brokers * a.partitionsPerBroker),
    brokers,
    redisNodes: redisMasters * (1 + a.redisReplicas),
    redisGb: redisBytes / 1e9,
    mongodbDiskGb: (jobs * (costs.mongodbBytes.value + payloadBytes)) / 1e9,
    kafkaDiskGb: (rate * bytes * a.replicas * a.retentionS) / 1e9,
    kafkaInMbS: (rate * bytes * a.replicas) / 1e6,
    kafkaOutMbS: (rate * bytes * (a.replicas - 1 + a.consumers)) / 1e6,
    registerMinutes: jobs / costs.registeredPerS.value / 60,
    beyond,
    decides: {
      brokers: Object.entries(reasons).reduce((x, y) => (y[1] > x[1] ? y : x))[0],
      shards: byJobs >= byRate ? 'jobs' : 'rate',
    },
  };
}

/** Cores that the planner gives a measured run (one replica, no reader, no head-room), to be compared with what it used. */
export function predictedCores(rate: number, costs: Costs): number {
  const { workerUs, kafkaUs, redisUs, mongodbUs } = costs;
  return (rate * (workerUs.value + kafkaUs.value + redisUs.value + mongodbUs.value)) / 1e6;
}
