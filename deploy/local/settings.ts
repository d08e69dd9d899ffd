export const SERVER_NAMES = ['mongodb', 'redis', 'kafka'] as const;
export type ServerName = (typeof SERVER_NAMES)[number];

export interface MongodbSettings {
  /** WiredTiger's cache in GiB; 0.25 is the least that mongod takes. */
  readonly cacheGB: number;
  /** The oplog in MB, the most that mongod keeps of it on the disk. */
  readonly oplogMB: number;
  /** False starts a mongod without a replica set: a wrong set-up, for tests that it is refused. */
  readonly replicaSet: boolean;
  /** Processes of the replica set. */
  readonly members: 1 | 3;
  /** The others elect a new primary after this silence of the old one, in ms; MongoDB's own default is 10,000. */
  readonly electionMs: number;
}

/** One server; a primary and a replica under three Sentinels; or a Redis Cluster of three primaries with a replica each. */
export const REDIS_TOPOLOGIES = ['single', 'sentinel', 'cluster'] as const;
export type RedisTopology = (typeof REDIS_TOPOLOGIES)[number];

export interface RedisSettings {
  readonly topology: RedisTopology;
  /** The memory in MiB; when it is full, writes are refused (noeviction). */
  readonly maxMemoryMB: number;
}

export interface KafkaSettings {
  /** The JVM's heap in MiB; 256 is about the least. */
  readonly heapMB: number;
  /** Size of a log segment in bytes: what retention removes at once. */
  readonly segmentBytes: number;
  /** What a partition keeps in bytes unless its topic says otherwise. Retention works by whole segments. */
  readonly retentionBytes: number;
  /** Compile with the first compiler only: a third off the start, and less throughput later. */
  readonly quickJit: boolean;
  /** Processes, each broker and controller; with three every topic has three replicas, two of which must be in step. */
  readonly brokers: 1 | 3;
  /** The port of a proxy before a second listener, which clients that come through the proxy are told; null: there is none. */
  readonly proxyPort: number | null;
}

export interface Settings {
  readonly mongodb: MongodbSettings;
  readonly redis: RedisSettings;
  readonly kafka: KafkaSettings;
}

const MiB = 1024 * 1024;

/** For playing, demos and benchmarks. */
export const LARGE: Settings = {
  mongodb: { cacheGB: 1, oplogMB: 1024, replicaSet: true, members: 1, electionMs: 10_000 },
  redis: { topology: 'single', maxMemoryMB: 2048 },
  kafka: {
    heapMB: 512,
    segmentBytes: 128 * MiB,
    retentionBytes: 1024 * MiB,
    quickJit: false,
    brokers: 1,
    proxyPort: null,
  },
};

/** For tests: quick to start, little to write. */
export const SMALL: Settings = {
  mongodb: { cacheGB: 0.25, oplogMB: 64, replicaSet: true, members: 1, electionMs: 2_000 },
  redis: { topology: 'single', maxMemoryMB: 512 },
  kafka: {
    heapMB: 384,
    segmentBytes: 32 * MiB,
    retentionBytes: 256 * MiB,
    quickJit: true,
    brokers: 1,
    proxyPort: null,
  },
};
