import { memberVersion, packMember } from '../../core/member.ts';
import type { Clock } from '../../ports/clock.ts';
import type { AddResult, DueMember, Stale, TriggerChange, TriggerStore } from '../../ports/trigger-store.ts';

/** What is kept of a job: as a member (score), without one (score null), or as a tombstone (record null). */
interface Entry {
  version: number;
  score: number | null;
  record: Uint8Array | null;
  reachesOwner: boolean;
  changedMs: number;
}

interface ShardState {
  epoch: number;
  horizonMs: number;
  entries: Map<number, Entry>;
}

function addOne(state: ShardState, change: TriggerChange, nowMs: number): AddResult {
  const { number, version, score, record } = change;
  const stored = state.entries.get(number);
  if (stored !== undefined && stored.version > version) return { outcome: 'older', reachesOwner: false };
  if (stored?.version === version) return { outcome: 'same', reachesOwner: stored.reachesOwner };
  const within = (one: number | null | undefined): boolean => typeof one === 'number' && one <= state.horizonMs;
  const reachesOwner = within(score) || within(stored?.score);
  const bytes = record === null ? null : record.slice();
  state.entries.set(number, { version, score, record: bytes, reachesOwner, changedMs: nowMs });
  return { outcome: 'applied', reachesOwner };
}

function dueMembers(state: ShardState, fromMs: number, horizonMs: number): DueMember[] {
  const due: DueMember[] = [];
  for (const [number, { version, score, record }] of state.entries) {
    if (score === null || record === null || score <= fromMs || score > horizonMs) continue;
    due.push({ number, memberVersion: memberVersion(packMember(number, version)), score, record: record.slice() });
  }
  return due.sort((a, b) => a.score - b.score);
}

/** The trigger store in memory; a scan looks at every member of its shard. */
export function memoryTriggerStore(clock: Clock): TriggerStore {
  const shards = new Map<number, ShardState>();

  function shardOf(shard: number): ShardState {
    let state = shards.get(shard);
    if (state === undefined) {
      state = { epoch: 0, horizonMs: 0, entries: new Map() };
      shards.set(shard, state);
    }
    return state;
  }
  const stale = ({ epoch }: ShardState): Stale => ({ status: 'stale', epoch });
  const finishedOf = (shard: number): [number, Entry][] =>
    [...shardOf(shard).entries].filter(([, entry]) => entry.score === 0);

  return {
    async add(shard, changes) {
      return changes.map((change) => addOne(shardOf(shard), change, clock.wallMs()));
    },
    async claim(shard, epoch) {
      const state = shardOf(shard);
      if (epoch < state.epoch) return stale(state);
      state.epoch = epoch;
      return { status: 'ok', horizonMs: state.horizonMs };
    },
    async scan(shard, { epoch, expectedHorizonMs, fromMs, horizonMs }) {
      const state = shardOf(shard);
      if (epoch < state.epoch) return stale(state);
      if (state.horizonMs !== expectedHorizonMs) return { status: 'horizon-moved', horizonMs: state.horizonMs };
      state.horizonMs = horizonMs;
      return { status: 'ok', due: dueMembers(state, fromMs, horizonMs) };
    },
    async writeBack(shard, epoch, scores) {
      const state = shardOf(shard);
      if (epoch < state.epoch) return stale(state);
      const within: number[] = [];
      let missing = 0;
      for (const [i, { number, version, score }] of scores.entries()) {
        const entry = state.entries.get(number);
        if (entry === undefined || entry.score === null || entry.version !== version) {
          missing += 1;
          continue;
        }
        entry.score = score;
        if (score !== 0 && score <= state.horizonMs) within.push(i);
      }
      return { status: 'ok', within, missing };
    },
    async finished(shard, limit) {
      return finishedOf(shard)
        .slice(0, limit)
        .map(([number, { version }]) => ({ number, version }));
    },
    async removeFinished(shard, members) {
      const { entries } = shardOf(shard);
      for (const { number, version } of members) {
        const entry = entries.get(number);
        if (entry?.version === version && entry.score === 0) entries.delete(number);
      }
    },
    async count(shard) {
      const members = [...shardOf(shard).entries.values()].filter((entry) => entry.score !== null).length;
      return { members, finished: finishedOf(shard).length };
    },
    async sweep(shard, beforeMs, limit) {
      const { entries } = shardOf(shard);
      const old = [...entries].filter(([, entry]) => entry.record === null && entry.changedMs < beforeMs);
      for (const [number] of old.slice(0, limit)) entries.delete(number);
      return Math.min(old.length, limit);
    },
    async drop(shard) {
      shards.delete(shard);
    },
    timeMs: async () => clock.wallMs(),
    async close() {},
  };
}
