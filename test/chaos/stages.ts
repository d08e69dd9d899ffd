import { mountRefusal } from '../../deploy/local/disk.ts';
import type { StartOptions } from '../../deploy/local/instance.ts';
import type { Fault } from './fault.ts';
import { clockFaults } from './faults/clocks.ts';
import { diskFaults } from './faults/disk.ts';
import { kafkaFaults } from './faults/kafka.ts';
import { managerFaults } from './faults/managers.ts';
import { mongodbFaults } from './faults/mongodb.ts';
import { networkFaults } from './faults/network.ts';
import { oneShotFaults } from './faults/one-shots.ts';
import { redisFaults } from './faults/redis.ts';
import { workerFaults } from './faults/workers.ts';

/** Servers, and the faults that need just these. */
export interface Stage {
  name: string;
  servers: Pick<StartOptions, 'settings' | 'diskMiB'>;
  proxied?: boolean;
  faults: readonly Fault[];
  /** Why this machine cannot do it, or null. */
  refusal?: () => string | null;
}

/** Room for what the suite writes in some minutes, and for the files that each server makes at its start, in MiB. */
const DISK_MIB = 1_024;

export const STAGES: readonly Stage[] = [
  {
    name: 'single',
    servers: {},
    faults: [...workerFaults, ...managerFaults, ...redisFaults.single, ...oneShotFaults],
  },
  // The time of an election is MongoDB's own default.
  { name: 'mongodb', servers: { settings: { mongodb: { members: 3, electionMs: 10_000 } } }, faults: mongodbFaults },
  { name: 'sentinel', servers: { settings: { redis: { topology: 'sentinel' } } }, faults: redisFaults.sentinel },
  { name: 'cluster', servers: { settings: { redis: { topology: 'cluster' } } }, faults: redisFaults.cluster },
  { name: 'kafka', servers: { settings: { kafka: { brokers: 3, heapMB: 320 } } }, faults: kafkaFaults },
  // What is fired too early by a wrong clock would count for the faults after it, so clocks have a stage of their own.
  { name: 'clock', servers: {}, faults: clockFaults },
  { name: 'network', servers: {}, proxied: true, faults: networkFaults },
  { name: 'disk', servers: { diskMiB: DISK_MIB }, faults: diskFaults, refusal: mountRefusal },
];

/** The form that is part of `npm test`: what is quick, and breaks most where something is wrong. */
export const SHORT: readonly string[] = ['worker-killed', 'worker-stopped', 'managers-killed', 'worker-frozen'];

export const FAULT_NAMES: readonly string[] = STAGES.flatMap(({ faults }) => faults.map(({ name }) => name));

/** Stages with those faults only that are named. */
export function stagesOf(names: readonly string[]): Stage[] {
  return STAGES.map((stage) => ({ ...stage, faults: stage.faults.filter(({ name }) => names.includes(name)) })).filter(
    ({ faults }) => faults.length > 0,
  );
}
