import { expect, test } from 'vitest';
import { LIMITS } from '../../../src/core/limits.ts';
import { newLive } from '../../../src/engine/firing/entries.ts';
import { Left } from '../../../src/engine/firing/left-jobs.ts';
import { ShardRun, Shards } from '../../../src/engine/firing/shard-run.ts';

test('the least horizon of shards follows every change of a shard and of the set, without those that are lost', () => {
  const shards = new Shards();
  expect(shards.horizonMs).toBe(Number.POSITIVE_INFINITY);
  const [a, b] = [new ShardRun(1, 100), new ShardRun(2, 50)];
  shards.set(1, a);
  expect(shards.horizonMs).toBe(100);
  shards.set(2, b);
  expect(shards.horizonMs).toBe(50);
  b.horizonMs = 200;
  expect(shards.horizonMs).toBe(100);
  a.lost = true;
  expect(shards.horizonMs).toBe(200);
  a.lost = false;
  expect(shards.horizonMs).toBe(100);
  a.horizonMs = 40;
  expect(shards.horizonMs).toBe(40);
  shards.delete(1);
  expect(shards.horizonMs).toBe(200);
  shards.clear();
  expect(shards.horizonMs).toBe(Number.POSITIVE_INFINITY);
});

test('jobs that left are remembered until half as many as may be have left after them, and once', () => {
  const left = new Left();
  const lives = Array.from({ length: LIMITS.leftEntries + 1 }, (_, i) => newLive(i));
  for (const [i, live] of lives.entries()) left.remember(String(i), live);
  expect(left.size).toBeLessThanOrEqual(LIMITS.leftEntries);
  const oldest = LIMITS.leftEntries / 2 + 1;
  expect(left.recall('0')).toBeNull();
  for (const i of [oldest, LIMITS.leftEntries]) {
    expect(left.recall(String(i))).toBe(lives[i]);
    expect(left.recall(String(i))).toBeNull();
  }
});
