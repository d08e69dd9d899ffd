import { createHash } from 'node:crypto';
import type { Cluster, Job } from '../../src/core/job.ts';
import type { Lease, Session } from '../../src/ports/lease-store.ts';
import type { Operation } from '../../src/ports/operation-store.ts';
import type { Shard } from '../../src/ports/shard-store.ts';

/** Job numbers are unique in their shard, so each sample has one that its name decides (30 bits). */
const numberOf = (name: string): number => createHash('sha256').update(name).digest().readUInt32BE() >>> 2;

/** Whole values with every required field, for tests that care about a few of them. */
export function sampleJob(key: string, fields: Partial<Job> = {}): Job {
  return {
    cluster: 'team',
    key,
    version: 1,
    state: 'enabled',
    shard: 3,
    number: numberOf(`${fields.cluster ?? 'team'}/${key}`),
    createdMs: 1_780_000_000_000,
    updatedMs: 1_780_000_000_000,
    cutMs: 1_780_000_000_000,
    schedule: { kind: 'cron', expression: '0 9 * * 1-5', zone: 'Europe/Paris' },
    bounds: { endMs: 1_790_000_000_000 },
    misfire: { mode: 'once', maxAgeMs: 60_000 },
    payload: '{"order": 1}',
    contentType: 'application/json',
    labels: { owner: 'billing' },
    position: { partition: 2, offset: 10 },
    lastChange: { id: `change-of-${key}`, result: 'created' },
    ...fields,
  };
}

export function sampleCluster(name: string, fields: Partial<Cluster> = {}): Cluster {
  return {
    name,
    topic: `carillon.triggers.${name}`,
    partitions: 4,
    envelope: 'cloudevents',
    delivery: 'exactly-once',
    createdMs: 1_780_000_000_000,
    ...fields,
  };
}

export function sampleShard(id: number, fields: Partial<Shard> = {}): Shard {
  return {
    id,
    delivery: 'exactly-once',
    slot: id % 4,
    state: 'open',
    jobs: 0,
    nextNumber: 1,
    triggersPerSecond: 0,
    saturated: false,
    ...fields,
  };
}

export function sampleSession(incarnation: string, fields: Partial<Session> = {}): Session {
  return {
    incarnation,
    role: 'worker',
    host: 'host-1',
    pid: 4_711,
    startedMs: 1_780_000_000_000,
    beat: 0,
    rates: {},
    wheelLagMs: 0,
    wheels: 2,
    ...fields,
  };
}

export function sampleLease(slot: number, fields: Partial<Lease> = {}): Lease {
  return { delivery: 'exactly-once', slot, owner: null, epoch: 0, wanted: 'keep', ...fields };
}

export function sampleOperation(key: string, fields: Partial<Operation> = {}): Operation {
  return {
    cluster: 'team',
    key,
    state: 'receiving',
    startedMs: 1_780_000_000_000,
    acceptedMs: null,
    lines: 0,
    hash: '',
    counts: { created: 0, updated: 0, unchanged: 0, failed: 0 },
    errors: [],
    counted: {},
    ...fields,
  };
}
