import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type Admin, Kafka, logLevel, type Producer } from 'kafkajs';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { triggerHead, triggerMessage } from '../../src/core/envelope.ts';
import type { ConsumerEvent, RunningConsumer } from '../../src/sdk/consumer.ts';
import { redisDeduplicator } from '../../src/sdk/deduplicator.ts';
import { consumeKafka, type KafkaConsumerOptions } from '../../src/sdk/kafka-consumer.ts';
import type { Trigger } from '../../src/sdk/trigger.ts';
import { effectsOf, orderOf, recordEffect } from './sdk/effects.ts';

const servers = inject('servers');
const START_MS = Date.parse('2027-01-01T00:00:00Z');
let serial = 0;

describe.skipIf(servers === null)('trigger consumer on Kafka', () => {
  let kafka: Kafka;
  let admin: Admin;
  let producer: Producer;
  let redis: Redis;
  const running = new Set<RunningConsumer>();

  beforeAll(async () => {
    kafka = new Kafka({ brokers: [...servers!.kafka], logLevel: logLevel.NOTHING });
    admin = kafka.admin();
    producer = kafka.producer({ transactionalId: 'sdk-test', maxInFlightRequests: 1, idempotent: true });
    redis = new Redis(servers!.redis);
    await Promise.all([admin.connect(), producer.connect()]);
  });

  afterAll(async () => {
    await Promise.all([...running].map((consumer) => consumer.stop()));
    await Promise.all([admin.disconnect(), producer.disconnect(), redis.quit()]);
  });

  async function topicOf(partitions: number): Promise<string> {
    const topic = `carillon.triggers.sdk-${process.pid}-${++serial}`;
    await admin.createTopics({ topics: [{ topic, numPartitions: partitions }], waitForLeaders: true });
    return topic;
  }

  /** Triggers of jobs `job-0` … in turn, one a minute each, in transactions; answers the execution ids. */
  async function publish(
    topic: string,
    partitions: number,
    count: number,
    jobs: number,
    { abort = false, envelope = 'cloudevents' as const as 'cloudevents' | 'compact', from = 0 } = {},
  ): Promise<string[]> {
    const cluster = { name: topic.slice('carillon.triggers.'.length), partitions, envelope };
    const ids: string[] = [];
    const messages = Array.from({ length: count }, (_, index) => {
      const job = (from + index) % jobs;
      const nominalMs = START_MS + Math.floor((from + index) / jobs) * 60_000;
      const record = { key: `job-${job}`, version: 3, payload: `{"job":${job}}`, contentType: 'application/json' };
      const id = `0-${job}-${nominalMs}`;
      ids.push(id);
      const message = triggerMessage(triggerHead(cluster, record, 1), id, nominalMs, nominalMs + 500);
      return { ...message, value: Buffer.from(message.value) };
    });
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages });
    await (abort ? transaction.abort() : transaction.commit());
    return ids;
  }

  async function consume(options: Omit<KafkaConsumerOptions, 'kafka'>): Promise<RunningConsumer> {
    const consumer = await consumeKafka({ kafka, sessionTimeoutMs: 6_000, ...options });
    running.add(consumer);
    void consumer.finished.catch(() => {}).finally(() => running.delete(consumer));
    return consumer;
  }

  const nextOffsets = async (group: string, topic: string): Promise<number> => {
    const [stored] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
    return stored!.partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0);
  };

  test('both envelopes, committed triggers only, offsets stored up to the end of the log', async () => {
    const topic = await topicOf(1);
    await publish(topic, 1, 2, 1, { abort: true, from: 10 });
    await publish(topic, 1, 2, 1);
    await publish(topic, 1, 1, 1, { envelope: 'compact', from: 2 });
    const seen: Trigger[] = [];
    const all = Promise.withResolvers<void>();
    const consumer = await consume({
      group: `${topic}-g`,
      topics: {
        [topic]: async (trigger) => {
          seen.push(trigger);
          if (seen.length === 3) all.resolve();
        },
      },
    });
    await all.promise;
    await consumer.stop();
    await consumer.finished;
    expect(seen.map(({ id }) => id)).toEqual([0, 1, 2].map((n) => `0-0-${START_MS + n * 60_000}`));
    expect(seen[0]).toMatchObject({
      key: 'job-0',
      nominalMs: START_MS,
      effectiveMs: START_MS + 500,
      version: 3,
      topic,
    });
    expect(seen[0]!.payload()).toEqual({ job: 0 });
    expect(seen[2]).toMatchObject({ cluster: topic.slice('carillon.triggers.'.length), key: 'job-0' });
    expect(seen[2]!.version).toBeUndefined();
    const [log] = await admin.fetchTopicOffsets(topic);
    expect(await nextOffsets(`${topic}-g`, topic)).toBe(Number(log!.high));
  });

  test('1,000 waiting triggers, slow handlers, members join, leave and are killed: one effect each, in order', async () => {
    const partitions = 6;
    const topic = await topicOf(partitions);
    const group = `${topic}-g`;
    const jobs = 50;
    const ids = await publish(topic, partitions, 1_000, jobs);
    const events: ConsumerEvent[] = [];
    let handled = 0;
    const watchers: { at: number; resolve: () => void }[] = [];
    const reached = (at: number) => new Promise<void>((resolve) => watchers.push({ at, resolve }));
    const member = () =>
      consume({
        group,
        concurrency: 8,
        deduplicator: redisDeduplicator(redis, { leaseMs: 1_500, prefix: `${group}:` }),
        onEvent: (event) => events.push(event),
        topics: {
          [topic]: async (trigger) => {
            await delay(100);
            await recordEffect(redis, group, trigger);
            handled += 1;
            for (const { at, resolve } of watchers) if (handled >= at) resolve();
          },
        },
      });
    const first = await member();
    await reached(50);
    const second = await member();
    await reached(150);
    const killed = spawn(
      process.execPath,
      [`${import.meta.dirname}/sdk/member.ts`, servers!.kafka.join(','), servers!.redis, topic, group],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    try {
      for await (const line of createInterface(killed.stdout)) if (line === 'hangs') break;
    } finally {
      killed.kill('SIGKILL');
    }
    await once(killed, 'exit');
    await first.stop();
    const third = await member();
    while ((await redis.hlen(`${group}:effects`)) < ids.length) await reached(handled + 1);
    await Promise.all([second.stop(), third.stop()]);
    const effects = await effectsOf(redis, group);
    expect([...effects.keys()].sort()).toEqual([...ids].sort());
    expect([...effects.values()].every((count) => count === 1)).toBe(true);
    for (let job = 0; job < jobs; job++) {
      const order = await orderOf(redis, group, `job-${job}`);
      expect(order).toEqual([...order].sort((a, b) => a - b));
    }
    // Whoever joined or left did so with nothing under way: only the killed member left copies, of what it had not stored.
    expect(events.filter(({ kind }) => kind !== 'duplicated')).toEqual([]);
    expect(events.length).toBeLessThanOrEqual(3);
  });

  test('a handler longer than the session: the member stays, joins late, and no trigger is handled twice', async () => {
    const topic = await topicOf(2);
    const group = `${topic}-g`;
    const ids = await publish(topic, 2, 2, 2);
    const calls: string[] = [];
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const handler = async ({ id }: Trigger) => {
      calls.push(id);
      begun.resolve();
      await delay(8_000);
      if (calls.length === 2) ended.resolve();
    };
    const first = await consume({ group, concurrency: 2, topics: { [topic]: handler } });
    await begun.promise;
    const second = await consume({ group, concurrency: 2, topics: { [topic]: handler } });
    await ended.promise;
    await Promise.all([first.stop(), second.stop()]);
    expect(calls.sort()).toEqual([...ids].sort());
  });

  test('a failing trigger is tried again; then the policy decides, and what follows it is not stored', async () => {
    const topic = await topicOf(1);
    const group = `${topic}-g`;
    await publish(topic, 1, 4, 4);
    const attempts: string[] = [];
    const broken = async ({ key, attempt }: Trigger) => {
      attempts.push(`${key} ${attempt}`);
      if (key === 'job-1') throw new Error('the business says no');
    };
    const retry = { attempts: 3, firstMs: 1 };
    const stopping = await consume({ group, retry, concurrency: 1, topics: { [topic]: broken } });
    await expect(stopping.finished).rejects.toThrow('the business says no');
    expect(attempts.filter((call) => call.startsWith('job-1'))).toEqual(['job-1 1', 'job-1 2', 'job-1 3']);
    expect(await nextOffsets(group, topic)).toBe(1);

    attempts.length = 0;
    const last = Promise.withResolvers<void>();
    const skipping = await consume({
      group,
      retry,
      concurrency: 1,
      onError: () => 'skip',
      topics: {
        [topic]: async (trigger) => {
          if (trigger.key === 'job-3') last.resolve();
          await broken(trigger);
        },
      },
    });
    await last.promise;
    await skipping.stop();
    expect(attempts.filter((call) => call.endsWith(' 1'))).toEqual(['job-1 1', 'job-2 1', 'job-3 1']);
    expect(await nextOffsets(group, topic)).toBe(5);
  });

  test('manual commit: what was not committed comes again', async () => {
    const topic = await topicOf(1);
    const group = `${topic}-g`;
    const ids = await publish(topic, 1, 3, 3);
    const seen: Trigger[] = [];
    const all = Promise.withResolvers<void>();
    const options = { group, commit: 'manual' as const, drainMs: 300 };
    const first = await consume({
      ...options,
      topics: {
        [topic]: async (trigger) => {
          seen.push(trigger);
          if (trigger.key !== 'job-1') await trigger.commit();
          if (seen.length === 3) all.resolve();
        },
      },
    });
    await all.promise;
    await first.stop();
    expect(await nextOffsets(group, topic)).toBe(1);
    const again: string[] = [];
    const rest = Promise.withResolvers<void>();
    const second = await consume({
      ...options,
      topics: {
        [topic]: async (trigger) => {
          again.push(trigger.id);
          await trigger.commit();
          if (again.length === 2) rest.resolve();
        },
      },
    });
    await rest.promise;
    await second.stop();
    expect(again).toEqual(ids.slice(1));
  });
});
