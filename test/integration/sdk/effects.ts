import type { Redis } from 'ioredis';
import type { Trigger } from '../../../src/sdk/trigger.ts';

/** Effects of handlers, over processes: how often each trigger was handled, and in which order those of a key. */
export async function recordEffect(redis: Redis, group: string, trigger: Trigger): Promise<void> {
  await redis
    .multi()
    .hincrby(`${group}:effects`, trigger.id, 1)
    .rpush(`${group}:order:${trigger.key}`, trigger.nominalMs)
    .exec();
}

export async function effectsOf(redis: Redis, group: string): Promise<Map<string, number>> {
  const counts = await redis.hgetall(`${group}:effects`);
  return new Map(Object.entries(counts).map(([id, count]) => [id, Number(count)]));
}

export async function orderOf(redis: Redis, group: string, key: string): Promise<number[]> {
  return (await redis.lrange(`${group}:order:${key}`, 0, -1)).map(Number);
}
