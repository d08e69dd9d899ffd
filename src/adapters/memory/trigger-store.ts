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
  /** Number of the last rebuild; 0: none. */
  build: number;
  whole: boolean;
  entries: Map<number, Entry>;
}

function addOne(state: ShardState, change: TriggerChange, nowMs: number, restores = false): AddResult {
  const { number, version, score, cutMs = 0, record } = change;
  const stored = state.entries.get(number);
  if (stored !== undefined && stored.version > version) return { outcome: 'older', reachesOwner: false };
  const lacks = restores && (score === null) !== (stored?.score === null);
  if (stored?.version === version && !lacks) return { outcome: 'same', reachesOwner: stored.reachesOwner };
  const within = (one: number | null | undefined, toMs: number): boolean => typeof one === 'number' && one <= toMs;
  const { horizonMs, whole } = state;
  const reachesOwner = within(score, horizonMs) || within(stored?.score, Math.max(horizonMs, cutMs)) || !whole;
  const bytes = record === null ? null : record.slice();
  const kept = { version, score, record: bytes, reachesOwner: reachesOwner || restores, changedMs: nowMs };
  state.entries.set(number, kept);
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
      state = { epoch: 0, horizonMs: 0, build: 0, whole: false, entries: new Map() };
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
      const formerEpoch = state.epoch;
      state.epoch = epoch;
      return { status: 'ok', horizonMs: state.horizonMs, formerEpoch, whole: state.whole, lineage: '' };
    },
    async reset(shard, epoch, build) {
      const state = shardOf(shard);
      if (epoch < state.epoch) return stale(state);
      shards.set(shard, { epoch, horizonMs: 0, build, whole: false, entries: new Map() });
      return { status: 'ok' };
    },
    async restore(shard, epoch, changes) {
      const state = shardOf(shard);
      if (epoch < state.epoch) return stale(state);
      return changes.map((change) => addOne(state, change, clock.wallMs(), true));
    },
    async compare(shard, jobs) {
      const { entries } = shardOf(shard);
      return [...jobs.keys()].filter((i) => {
        const { number, version, member } = jobs[i]!;
        const stored = entries.get(number);
        if (stored === undefined || stored.version < version) return true;
        return stored.version === version && (stored.score !== null) !== member;
      });
    },
    async scan(shard, { epoch, expectedHorizonMs, fromMs, horizonMs, build }) {
      const state = shardOf(shard);
      if (epoch < state.epoch) return stale(state);
      if (build === undefined ? !state.whole : build !== state.build) return { status: 'not-whole' };
      if (state.horizonMs !== expectedHorizonMs) return { status: 'horizon-moved', horizonMs: state.horizonMs };
      state.whole = true;
      state.horizonMs = horizonMs;
      return { status: 'ok', due: dueMembers(state, fromMs, horizonMs) };
    },
    async writeBack(shard, epoch, scores) {
      const state = shardOf(shard);
      if (epoch < state.epoch) return stale(state);
      const within: number[] = [];
      const missing: number[] = [];
      for (const [i, { number, version, score }] of scores.entries()) {
        const entry = state.entries.get(number);
        if (entry === undefined || entry.score === null || entry.version !== version) {
          missing.push(i);
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
        if (entry?.version === version && entry.score !== null) entries.delete(number);
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
    connections: () => 1,
    timeMs: async () => clock.wallMs(),
    async close() {},
  };
}
