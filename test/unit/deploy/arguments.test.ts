import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { jvmArguments, kafka, kafkaProperties, log4jProperties } from '../../../deploy/local/kafka.ts';
import { mongodArguments } from '../../../deploy/local/mongodb.ts';
import { redisArguments } from '../../../deploy/local/redis.ts';
import { LARGE, SMALL } from '../../../deploy/local/settings.ts';

/** `key=value` lines as a table. */
function read(text: string): Record<string, string> {
  return Object.fromEntries(
    text
      .trimEnd()
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

/** The value that follows an option. */
const following = (args: readonly string[], option: string) => args[args.indexOf(option) + 1];

describe('the properties of Kafka', () => {
  const alone = { name: 'kafka', ports: [9001, 9002] };
  const properties = read(kafkaProperties('/data/logs', alone, [alone], SMALL.kafka));

  it('keep every listener on 127.0.0.1', () => {
    expect(properties['listeners']).toBe('PLAINTEXT://127.0.0.1:9001,CONTROLLER://127.0.0.1:9002');
    expect(properties['advertised.listeners']).toBe('PLAINTEXT://127.0.0.1:9001');
    expect(properties['controller.quorum.voters']).toBe('1@127.0.0.1:9002');
  });

  it('bound the disk: retention looks often, at segments smaller than what a partition keeps', () => {
    expect(Number(properties['log.retention.check.interval.ms'])).toBeLessThanOrEqual(5000);
    expect(Number(properties['log.segment.delete.delay.ms'])).toBeLessThanOrEqual(1000);
    expect(Number(properties['log.segment.bytes'])).toBeLessThan(Number(properties['log.retention.bytes']));
  });

  it('of three brokers keep every acknowledged record on two disks, and replace a dead broker within 3 s', () => {
    const members = kafka.members({ ...SMALL.kafka, brokers: 3 });
    const all = members.map((member) => read(kafkaProperties('/data/logs', member, members, SMALL.kafka)));
    expect(all.map((one) => one['node.id'])).toEqual(['1', '2', '3']);
    expect(new Set(all.map((one) => one['controller.quorum.voters'])).size).toBe(1);
    for (const one of all) {
      expect(one).toMatchObject({
        'default.replication.factor': '3',
        'min.insync.replicas': '2',
        'offsets.topic.replication.factor': '3',
        'transaction.state.log.replication.factor': '3',
        'transaction.state.log.min.isr': '2',
        'unclean.leader.election.enable': 'false',
        'broker.session.timeout.ms': '3000',
      });
    }
  });

  it('bound the log of the broker as well', () => {
    const log = read(log4jProperties('/data/kafka.log'));
    expect(log['appender.file.fileName']).toBe('/data/kafka.log');
    expect(log['appender.file.policies.size.size']).toBe('10MB');
    expect(log['appender.file.strategy.max']).toBe('2');
  });

  it('leave nothing outside of its folder and bound the heap', () => {
    const jvm = jvmArguments('/data', LARGE.kafka);
    expect(jvm).toContain('-Xmx512m');
    expect(jvm).toContain('-Djava.io.tmpdir=/data/tmp');
    expect(jvm).toContain('-XX:-UsePerfData');
  });
});

describe('the arguments', () => {
  it('of mongod bind it to 127.0.0.1, bound its memory and oplog, and make a replica set unless told not to', () => {
    const args = mongodArguments('/data', 9001, LARGE.mongodb);
    expect(following(args, '--bind_ip')).toBe('127.0.0.1');
    expect(following(args, '--wiredTigerCacheSizeGB')).toBe('1');
    expect(following(args, '--oplogSize')).toBe('1024');
    expect(following(args, '--replSet')).toBe('rs0');
    expect(args).toContain('--nounixsocket');
    expect(mongodArguments('/data', 9001, { ...LARGE.mongodb, replicaSet: false })).not.toContain('--replSet');
  });

  it('of Redis bind it to 127.0.0.1, bound its memory without eviction, and keep an append-only file', () => {
    const args = redisArguments('/data', 9001, LARGE.redis);
    expect(following(args, '--bind')).toBe('127.0.0.1');
    expect(following(args, '--maxmemory')).toBe('2048mb');
    expect(following(args, '--maxmemory-policy')).toBe('noeviction');
    expect(following(args, '--appendonly')).toBe('yes');
  });
});

describe('compose.yaml', () => {
  interface Service {
    image: string;
    ports: string[];
    command: string[];
    environment: Record<string, string | number>;
  }
  const file = join(import.meta.dirname, '../../../deploy/compose.yaml');
  const { services } = parse(readFileSync(file, 'utf8')) as {
    services: { mongodb: Service; redis: Service; kafka: Service };
  };

  it('publishes ports on 127.0.0.1 only, from images of a full version', () => {
    for (const { image, ports } of Object.values(services)) {
      expect(image).toMatch(/:\d+\.\d+\.\d+$/);
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:(\d+):\1$/);
    }
  });

  it('gives Kafka the settings of the local servers', () => {
    const [alone] = kafka.members(LARGE.kafka);
    const local = read(kafkaProperties('/var/lib/kafka/data', alone!, [alone!], LARGE.kafka));
    const { KAFKA_HEAP_OPTS: heap, ...environment } = services.kafka.environment;
    // Inside a container the clients' listener has to face the outside; the port is published on 127.0.0.1 only.
    local['listeners'] = local['listeners']?.replace('127.0.0.1:29171', '0.0.0.0:29171') ?? '';
    const named = (key: string): string => `KAFKA_${key.toUpperCase().replaceAll('.', '_')}`;
    const wanted = Object.fromEntries(Object.entries(local).map(([key, value]) => [named(key), value]));
    expect(Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, String(value)]))).toEqual(wanted);
    expect(heap).toBe('-Xmx512m');
  });

  it('gives MongoDB and Redis the bounds of the local servers', () => {
    expect(following(services.mongodb.command, '--replSet')).toBe('rs0');
    expect(following(services.mongodb.command, '--wiredTigerCacheSizeGB')).toBe(String(LARGE.mongodb.cacheGB));
    expect(following(services.mongodb.command, '--oplogSize')).toBe(String(LARGE.mongodb.oplogMB));
    expect(following(services.redis.command, '--maxmemory')).toBe(`${LARGE.redis.maxMemoryMB}mb`);
    expect(following(services.redis.command, '--maxmemory-policy')).toBe('noeviction');
    expect(following(services.redis.command, '--appendonly')).toBe('yes');
  });
});
