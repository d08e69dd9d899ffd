import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  Connection,
  describeGroupsV5,
  describeTransactionsV0,
  findCoordinatorV6,
  initProducerIdV5,
  metadataV12,
  ResponseError,
} from '@platformatic/kafka';
import { KAFKA } from './pins.ts';
import { HOST } from './ports.ts';
import { findJava, MissingPrerequisites } from './prerequisites.ts';
import type { ServerKind } from './server.ts';
import type { KafkaSettings } from './settings.ts';

/**
 * Kafka makes its internal topics when the first group and the first transaction ask for them, and a start waits for
 * each partition; its defaults are 50 of each. A few are enough for one node: groups are few, and eight partitions
 * keep many transactional ids from queueing in one log.
 */
const OFFSETS_PARTITIONS = 4;
const TRANSACTION_PARTITIONS = 8;

export const kafka: ServerKind<'kafka'> = {
  name: 'kafka',
  // The second port is that of the controller, which only the broker itself calls.
  preferredPorts: [29_171, 29_172],
  stopGraceMs: 30_000,
  version: () => KAFKA.version,
  command: async ({ dist, data, ports: [port = 0, controllerPort = 0] }, settings) => {
    const found = findJava();
    if ('what' in found) throw new MissingPrerequisites([found]);
    const properties = join(data, 'server.properties');
    await mkdir(join(data, 'tmp'), { recursive: true });
    await writeFile(properties, kafkaProperties(join(data, 'logs'), port, controllerPort, settings));
    await writeFile(join(data, 'log4j2.properties'), log4jProperties(join(data, 'kafka.log')));
    const classes = ['-cp', join(dist, '*')];
    // The tool that formats lives for half a second, so it has nothing from the better compiler, whatever the broker has.
    const quick = jvmArguments(data, { ...settings, quickJit: true });
    await format(found.java, [...quick, ...classes], data, properties);
    return { file: found.java, args: [...jvmArguments(data, settings), ...classes, 'kafka.Kafka', properties] };
  },
  address: ([port = 0]) => ({ brokers: [`${HOST}:${port}`] }),
  ready: async ([port = 0]) => {
    const connection = new Connection('carillon-servers', { connectTimeout: 1000, requestTimeout: 5000 });
    try {
      await connection.connect(HOST, port);
      await coordinatorsAnswer(connection);
    } finally {
      await connection.close();
    }
  },
};

/** A JVM for a broker of one node: few threads for its collector, nothing written outside of its folder. */
export function jvmArguments(data: string, settings: KafkaSettings): string[] {
  return [
    `-Xmx${settings.heapMB}m`,
    // G1 with a heap this small on few cores costs more threads than it saves pauses while many tests share them.
    ...(settings.quickJit ? ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'] : ['-XX:+UseG1GC']),
    '-XX:+ExitOnOutOfMemoryError',
    '-XX:-UsePerfData',
    '-Djava.awt.headless=true',
    `-Djava.io.tmpdir=${join(data, 'tmp')}`,
    `-Dlog4j2.configurationFile=${join(data, 'log4j2.properties')}`,
  ];
}

/** server.properties of a single node that is broker and controller; the disk is bounded by the settings. */
export function kafkaProperties(logs: string, port: number, controllerPort: number, settings: KafkaSettings): string {
  return lines({
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@${HOST}:${controllerPort}`,
    listeners: `PLAINTEXT://${HOST}:${port},CONTROLLER://${HOST}:${controllerPort}`,
    'advertised.listeners': `PLAINTEXT://${HOST}:${port}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
    'log.dirs': logs,
    'offsets.topic.num.partitions': OFFSETS_PARTITIONS,
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.num.partitions': TRANSACTION_PARTITIONS,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'share.coordinator.state.topic.num.partitions': 1,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    'group.initial.rebalance.delay.ms': 0,
    'auto.create.topics.enable': false,
    // Retention removes whole closed segments when it looks: without these three it looks every five minutes at
    // segments of 1 GiB, and a fast producer fills the disk many times over in between.
    'log.retention.check.interval.ms': 5000,
    'log.segment.delete.delay.ms': 1000,
    'log.segment.bytes': settings.segmentBytes,
    'log.retention.bytes': settings.retentionBytes,
    // The compactor takes 128 MiB of the heap unless told otherwise; this is room for a million keys at a time.
    'log.cleaner.dedupe.buffer.size': 32 * 1024 * 1024,
  });
}

/** The broker's log: a file of at most 10 MB and two older ones. */
export function log4jProperties(file: string): string {
  return lines({
    status: 'error',
    'appender.file.type': 'RollingFile',
    'appender.file.name': 'file',
    'appender.file.fileName': file,
    'appender.file.filePattern': `${file}.%i`,
    'appender.file.layout.type': 'PatternLayout',
    'appender.file.layout.pattern': '%d %p %m (%c)%n',
    'appender.file.policies.type': 'Policies',
    'appender.file.policies.size.type': 'SizeBasedTriggeringPolicy',
    'appender.file.policies.size.size': '10MB',
    'appender.file.strategy.type': 'DefaultRolloverStrategy',
    'appender.file.strategy.max': 2,
    'rootLogger.level': 'info',
    'rootLogger.appenderRef.file.ref': 'file',
  });
}

function lines(properties: Readonly<Record<string, string | number | boolean>>): string {
  return `${Object.entries(properties)
    .map(([key, value]) => `${key}=${value}`)
    .join('\n')}\n`;
}

/** Gives the data folder its cluster id, once. A format that was cut short is begun again. */
async function format(java: string, jvm: readonly string[], data: string, properties: string): Promise<void> {
  const done = join(data, 'formatted');
  if (existsSync(done)) return;
  await rm(join(data, 'logs'), { recursive: true, force: true });
  const tool = ['kafka.tools.StorageTool', 'format', '--cluster-id', clusterId(), '--config', properties];
  await promisify(execFile)(java, [...jvm, ...tool], { cwd: data });
  await writeFile(done, '');
}

/** 16 random bytes in base64url. Kafka takes no id that begins with a dash, which would look like an option. */
function clusterId(): string {
  const id = randomBytes(16).toString('base64url');
  return id.startsWith('-') ? clusterId() : id;
}

/** The protocol's error code for "loaded, and there is no such id": the answer that we hope for. */
const TRANSACTIONAL_ID_NOT_FOUND = 105;

/**
 * Every partition of both internal topics has a coordinator that has loaded it. A name's partition is its Java hash
 * modulo their number, and names that differ in their last digit alone have hashes in a row, so that `ready-0` to
 * `ready-7` cover eight partitions and `ready-0` to `ready-3` four. Asking makes the topics and writes nothing else.
 */
async function coordinatorsAnswer(connection: Connection): Promise<void> {
  const names = (count: number): string[] => Array.from({ length: count }, (_, digit) => `ready-${digit}`);
  const { brokers } = await metadataV12.api.async(connection, []);
  if (brokers.length === 0) throw new Error('no broker is registered yet');
  const groups = names(OFFSETS_PARTITIONS);
  const transactionalIds = names(TRANSACTION_PARTITIONS);
  await findCoordinatorV6.api.async(connection, 0, groups);
  await findCoordinatorV6.api.async(connection, 1, transactionalIds);
  // A group that nobody knows is described as dead, without an error.
  await describeGroupsV5.api.async(connection, groups, false);
  await describeTransactionsV0.api.async(connection, transactionalIds).catch((error: unknown) => {
    const codes =
      error instanceof ResponseError ? error.errors.map(({ apiCode }: { apiCode?: number }) => apiCode) : [];
    if (codes.length === 0 || codes.some((code) => code !== TRANSACTIONAL_ID_NOT_FOUND)) throw error;
  });
  // The first producer id that is asked for lets the broker fetch a block of them from the controller, and is refused
  // as "coordinator is loading" until it has come. A producer without a transactional id leaves no other trace.
  await initProducerIdV5.api.async(connection, null, 5000);
}
