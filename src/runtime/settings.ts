/**
 * Every setting of Carillon, in one table. A setting has one name everywhere: `listenPort` in `carillon.config.json`,
 * `CARILLON_LISTEN_PORT` in the environment, `--listen-port` as a flag. Later ones win. There is no setting that is not in
 * this table, and an unknown one is refused.
 */
export interface Setting {
  kind: 'text' | 'integer' | 'choice' | 'list';
  /** Null: none; the setting stays null unless it is given. Secrets have none, ever. */
  default: string | number | readonly string[] | null;
  /** Least and greatest integer. */
  min?: number;
  max?: number;
  choices?: readonly string[];
  /** Unit of an integer. */
  unit?: string;
  /** `whole`: never printed, no flag (flags are seen by every user of the machine). `in-url`: its password is not printed. */
  secret?: 'whole' | 'in-url';
  /** What it is for and why the default is what it is. */
  reason: string;
}

const SETTINGS = {
  mode: {
    kind: 'choice',
    choices: ['embedded', 'cluster'],
    default: 'embedded',
    reason: 'embedded: one process on SQLite; cluster: MongoDB, Redis and Kafka. Embedded needs nothing else to start.',
  },
  role: {
    kind: 'choice',
    choices: ['all', 'api', 'manager', 'worker'],
    default: 'all',
    reason: 'What this process does in cluster mode; embedded is always all.',
  },
  listenHost: {
    kind: 'text',
    default: '127.0.0.1',
    reason: 'Address of the API; any other than this machine only (127.0.0.1) needs apiKey.',
  },
  listenPort: { kind: 'integer', default: 7171, min: 0, max: 65_535, reason: 'Port of the API; 0 takes a free one.' },
  apiKey: {
    kind: 'text',
    default: null,
    secret: 'whole',
    reason: 'Key that every request but health must carry as "Authorization: Bearer KEY"; at least 16 characters.',
  },
  adminHost: {
    kind: 'text',
    default: '127.0.0.1',
    reason: 'Address of health and metrics for roles without API.',
  },
  adminPort: {
    kind: 'integer',
    default: 0,
    min: 0,
    max: 65_535,
    reason: 'Port of health and metrics for the roles manager and worker; 0: none, so that roles stand side by side.',
  },
  dataDir: { kind: 'text', default: 'data', reason: 'Folder of the embedded store; relative to the working folder.' },
  mongodbUri: {
    kind: 'text',
    default: null,
    secret: 'in-url',
    reason: 'Connection string of the MongoDB replica set; needed in cluster mode.',
  },
  mongodbDatabase: { kind: 'text', default: 'carillon', reason: 'Database of this installation.' },
  redisUrl: {
    kind: 'text',
    default: null,
    secret: 'in-url',
    reason:
      'Redis of the trigger store: redis://HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/NAME or ' +
      'redis+cluster://HOST:PORT,HOST:PORT (rediss: TLS); needed in cluster mode.',
  },
  redisPrefix: { kind: 'text', default: 'carillon', reason: 'First part of every Redis key of this installation.' },
  kafkaBrokers: { kind: 'list', default: null, reason: 'host:port of brokers, by comma; needed in cluster mode.' },
  kafkaReplication: {
    kind: 'integer',
    default: 0,
    min: 0,
    max: 9,
    unit: 'replicas',
    reason: 'Replicas of the topics that are made; 0: three, or as many as there are brokers.',
  },
  kafkaTls: {
    kind: 'choice',
    choices: ['off', 'on'],
    default: 'off',
    reason: 'on: all connections to Kafka are TLS, and each broker must show a certificate for its host.',
  },
  kafkaCaFile: {
    kind: 'text',
    default: null,
    reason:
      'With kafkaTls: PEM file of the authorities that sign the certificates of brokers; none: those that Node knows.',
  },
  kafkaSasl: {
    kind: 'choice',
    choices: ['none', 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'],
    default: 'none',
    reason:
      'How Carillon proves to Kafka who it is; needs kafkaUsername and kafkaPassword. PLAIN shows the password: use kafkaTls.',
  },
  kafkaUsername: { kind: 'text', default: null, reason: 'Name of Carillon at Kafka, with kafkaSasl.' },
  kafkaPassword: { kind: 'text', default: null, secret: 'whole', reason: 'Password of that name.' },
  slotsPerSet: {
    kind: 'integer',
    default: 8,
    min: 1,
    max: 256,
    unit: 'slots',
    reason: 'Slots per delivery mode, the most workers that can share the work; stored at the first start, then fixed.',
  },
  lanesPerSlot: {
    kind: 'integer',
    default: 4,
    min: 1,
    max: 64,
    unit: 'lanes',
    reason: 'Transactional producers of a slot, half of them spares; stored at the first start, then fixed.',
  },
  changesPartitions: {
    kind: 'integer',
    default: 8,
    min: 1,
    max: 256,
    unit: 'partitions',
    reason: 'Partitions of the changes topic, the most appliers; stored at the first start, then fixed.',
  },
  wheels: {
    kind: 'integer',
    default: 1,
    min: 1,
    max: 64,
    unit: 'threads',
    reason: 'Timing wheels of a worker, a thread each; one fires several hundred thousand triggers a second.',
  },
  retentionMs: {
    kind: 'integer',
    default: 3_600_000,
    min: 1_000,
    max: 31_622_400_000,
    unit: 'ms',
    reason: 'How long an embedded trigger is kept after its consumer has committed it: an hour, to look back.',
  },
  retentionBytes: {
    kind: 'integer',
    default: 1_073_741_824,
    min: 1_048_576,
    max: Number.MAX_SAFE_INTEGER,
    unit: 'bytes',
    reason: 'Bound of what retention keeps in the data folder: 1 GiB, so that it does not fill a small disk.',
  },
  misfireAfterMs: {
    kind: 'integer',
    default: 10_000,
    min: 1_000,
    max: 86_400_000,
    unit: 'ms',
    reason: 'An occurrence unpublished for longer goes by the misfire policy; above any takeover or failover.',
  },
  clockOffsetMs: {
    kind: 'integer',
    default: 0,
    min: -86_400_000,
    max: 86_400_000,
    unit: 'ms',
    reason:
      'For tests: added to the wall clock of this process, to prove on one machine what holds when clocks differ.',
  },
  logLevel: {
    kind: 'choice',
    choices: ['debug', 'info', 'warn', 'error', 'silent'],
    default: 'info',
    reason: 'Least level of JSON log lines on standard output.',
  },
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof SETTINGS;

type ValueOf<S extends Setting> = S extends { choices: readonly (infer C)[] }
  ? C
  : S extends { kind: 'integer' }
    ? number
    : S extends { kind: 'list' }
      ? readonly string[] | null
      : S extends { default: null }
        ? string | null
        : string;

/** The settings in force; which ones may be null is told by the table. */
export type Config = { readonly [N in SettingName]: ValueOf<(typeof SETTINGS)[N]> };

export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[];

export function setting(name: SettingName): Setting {
  return SETTINGS[name];
}

/** `listenPort` -> `CARILLON_LISTEN_PORT`. */
export function environmentName(name: SettingName): string {
  return `CARILLON_${words(name).join('_').toUpperCase()}`;
}

/** `listenPort` -> `listen-port` (given as `--listen-port`); null for secrets, which have no flag. */
export function flagName(name: SettingName): string | null {
  return setting(name).secret === 'whole' ? null : words(name).join('-').toLowerCase();
}

function words(name: string): string[] {
  return name.split(/(?=[A-Z])/);
}
