import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
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
import { type Member, numbered, type ServerKind } from './server.ts';
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
  // Brokers that are told to stop at the same time wait for each other: one of them for a leader that is gone.
  stopGraceMs: ({ brokers }) => (brokers === 1 ? 30_000 : 3_000),
  version: () => KAFKA.version,
  // The second port is that of the controller, which only brokers call, the third is for a proxy.
  members: ({ brokers, proxyPort }) =>
    brokers === 1
      ? [{ name: 'kafka', ports: [29_171, 29_172, ...(proxyPort === null ? [] : [29_173])] }]
      : numbered('kafka', brokers, [29_711, 29_712]),
  command: async ({ dist, data, member, members }, settings) => {
    const found = findJava();
    if ('what' in found) throw new MissingPrerequisites([found]);
    const properties = join(data, 'server.properties');
    await mkdir(join(data, 'tmp'), { recursive: true });
    await writeFile(properties, kafkaProperties(join(data, 'logs'), member, members, settings));
    await writeFile(join(data, 'log4j2.properties'), log4jProperties(join(data, 'kafka.log')));
    const classes = ['-cp', join(dist, '*')];
    // The tool that formats lives for half a second, so it has nothing from the better compiler, whatever the broker has.
    const quick = jvmArguments(data, { ...settings, quickJit: true });
    await format(found.java, [...quick, ...classes], data, properties, clusterId(join(data, '..'), members));
    return { file: found.java, args: [...jvmArguments(data, settings), ...classes, 'kafka.Kafka', properties] };
  },
  address: (members) => ({ brokers: members.map(({ ports }) => `${HOST}:${ports[0]}`) }),
  ready: async (members) =>
    await withBroker(members[0]?.ports[0] ?? 0, async (connection) => {
      await refuseAbsentBrokers(connection, members.length);
      await coordinatorsAnswer(connection, members.length);
    }),
  serves: async (member) =>
    await withBroker(member.ports[0] ?? 0, async (connection) => {
      const { brokers } = await metadataV12.api.async(connection, []);
      if (!brokers.some(({ port }) => port === member.ports[0]))
        throw new Error('the controller does not count it in yet');
    }),
};

async function withBroker<T>(port: number, work: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = new Connection('carillon-servers', { connectTimeout: 1000, requestTimeout: 5000 });
  try {
    await connection.connect(HOST, port);
    return await work(connection);
  } finally {
    await connection.close();
  }
}

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

/** server.properties of a node that is broker and controller; the disk is bounded by the settings. */
export function kafkaProperties(
  logs: string,
  member: Member,
  members: readonly Member[],
  settings: KafkaSettings,
): string {
  const [port, controllerPort] = member.ports;
  const voters = members.map(({ ports: [, controller] }, index) => `${index + 1}@${HOST}:${controller}`);
  const replicas = members.length;
  const inStep = Math.max(1, replicas - 1);
  return lines({
    'process.roles': 'broker,controller',
    'node.id': members.indexOf(member) + 1,
    'controller.quorum.voters': voters.join(','),
    listeners: `PLAINTEXT://${HOST}:${port},CONTROLLER://${HOST}:${controllerPort}`,
    'advertised.listeners': `PLAINTEXT://${HOST}:${port}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
    'log.dirs': logs,
    'offsets.topic.num.partitions': OFFSETS_PARTITIONS,
    'offsets.topic.replication.factor': replicas,
    'transaction.state.log.num.partitions': TRANSACTION_PARTITIONS,
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': inStep,
    'share.coordinator.state.topic.num.partitions': 1,
    'share.coordinator.state.topic.replication.factor': replicas,
    'share.coordinator.state.topic.min.isr': inStep,
    ...(replicas > 1 && replicated(replicas, inStep)),
    ...(settings.proxyPort !== null && proxied(member, settings.proxyPort)),
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

/** A second listener beside that of direct clients: whoever comes through the proxy is sent back through it. */
function proxied({ ports: [port, controllerPort, behindPort] }: Member, proxyPort: number): Record<string, string> {
  return {
    listeners: `PLAINTEXT://${HOST}:${port},CONTROLLER://${HOST}:${controllerPort},PROXIED://${HOST}:${behindPort}`,
    'advertised.listeners': `PLAINTEXT://${HOST}:${port},PROXIED://${HOST}:${proxyPort}`,
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT',
  };
}

/** What several brokers need on top: nothing acknowledged is on one disk alone, and a dead broker is replaced within 3 s. */
function replicated(replicas: number, inStep: number): Record<string, number | boolean> {
  return {
    'default.replication.factor': replicas,
    'min.insync.replicas': inStep,
    'unclean.leader.election.enable': false,
    'broker.session.timeout.ms': 3000,
    'broker.heartbeat.interval.ms': 500,
  };
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
async function format(
  java: string,
  jvm: readonly string[],
  data: string,
  properties: string,
  id: string,
): Promise<void> {
  const done = join(data, 'formatted');
  if (existsSync(done)) return;
  await rm(join(data, 'logs'), { recursive: true, force: true });
  const tool = ['kafka.tools.StorageTool', 'format', '--cluster-id', id, '--config', properties];
  await promisify(execFile)(java, [...jvm, ...tool], { cwd: data });
  await writeFile(done, '');
}

/**
 * 16 bytes in base64url, the same for all brokers of an instance and another for each instance. Kafka takes no id that begins
 * with a dash, which would look like an option.
 */
function clusterId(instance: string, members: readonly Member[]): string {
  const name = `${instance} ${members.map(({ ports }) => ports.join()).join(' ')}`;
  return createHash('sha256').update(name).digest().subarray(0, 16).toString('base64url').replace(/^-/, 'A');
}

/** The protocol's error code for "loaded, and there is no such id": the answer that we hope for. */
const TRANSACTIONAL_ID_NOT_FOUND = 105;

/** @throws while not all brokers are counted in by the controller */
async function refuseAbsentBrokers(connection: Connection, count: number): Promise<void> {
  const { brokers } = await metadataV12.api.async(connection, []);
  if (brokers.length < count) throw new Error(`${brokers.length} of ${count} brokers are registered`);
}

/**
 * Every partition of both internal topics has a coordinator that has loaded it, and as many replicas in step as there are
 * brokers. A name's partition is its Java hash modulo their number, and names that differ in their last digit alone have
 * hashes in a row, so that `ready-0` to `ready-7` cover eight partitions and `ready-0` to `ready-3` four. Asking makes the
 * topics and writes nothing else.
 */
async function coordinatorsAnswer(connection: Connection, replicas: number): Promise<void> {
  const names = (count: number): string[] => Array.from({ length: count }, (_, digit) => `ready-${digit}`);
  // A group that nobody knows is described as dead, without an error.
  await atCoordinators(connection, 0, names(OFFSETS_PARTITIONS), async (broker, groups) => {
    await describeGroupsV5.api.async(broker, groups, false);
  });
  await atCoordinators(connection, 1, names(TRANSACTION_PARTITIONS), async (broker, ids) => {
    await describeTransactionsV0.api.async(broker, ids).catch((error: unknown) => {
      const codes =
        error instanceof ResponseError ? error.errors.map(({ apiCode }: { apiCode?: number }) => apiCode) : [];
      if (codes.length === 0 || codes.some((code) => code !== TRANSACTIONAL_ID_NOT_FOUND)) throw error;
    });
    // The first producer id that is asked for lets the broker fetch a block of them from the controller, and is refused
    // as "coordinator is loading" until it has come. A producer without a transactional id leaves no other trace.
    await initProducerIdV5.api.async(broker, null, 5000);
  });
  const { topics } = await metadataV12.api.async(connection, ['__consumer_offsets', '__transaction_state']);
  const partitions = topics.flatMap(({ partitions }) => partitions);
  const behind = partitions.filter(({ isrNodes }) => isrNodes.length < replicas).length;
  if (behind > 0) throw new Error(`${behind} partitions of the internal topics have replicas that are not in step`);
}

/** Work with the coordinators of these names (0: groups, 1: transactional ids), each with those that are its own. */
async function atCoordinators(
  connection: Connection,
  type: number,
  names: readonly string[],
  work: (broker: Connection, names: string[]) => Promise<void>,
): Promise<void> {
  const { coordinators } = await findCoordinatorV6.api.async(connection, type, [...names]);
  for (const [port, own] of Map.groupBy(coordinators, (coordinator) => coordinator.port)) {
    const keys = own.map(({ key }) => key);
    await withBroker(port, (broker) => work(broker, keys));
  }
}
