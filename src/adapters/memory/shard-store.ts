import type { Shard, ShardStore } from '../../ports/shard-store.ts';

export function memoryShardStore(): ShardStore {
  const shards = new Map<number, Shard>();
  return {
    shards: async () => structuredClone([...shards.values()]),
    async create(some) {
      const missing = some.filter((shard) => !shards.has(shard.id));
      for (const shard of missing) shards.set(shard.id, { ...shard });
      return missing.length;
    },
    async takePlaces(delivery, wanted, capacity) {
      const open = [...shards.values()].filter(
        (one) => one.delivery === delivery && one.state === 'open' && !one.saturated && one.jobs < capacity,
      );
      const [shard] = open.sort((a, b) => a.jobs - b.jobs);
      if (shard === undefined) return null;
      const count = Math.min(wanted, capacity - shard.jobs);
      const block = { shard: shard.id, slot: shard.slot, firstNumber: shard.nextNumber, count };
      shard.jobs += count;
      shard.nextNumber += count;
      return block;
    },
    async addJobs(changes) {
      for (const { shard, jobs } of changes) {
        const one = shards.get(shard);
        if (one !== undefined) one.jobs += jobs;
      }
    },
    async setState(shard, from, to) {
      const one = shards.get(shard);
      if (one?.state !== from) return false;
      one.state = to;
      return true;
    },
    async setLoad(loads) {
      for (const { shard, triggersPerSecond, saturated } of loads) {
        const one = shards.get(shard);
        if (one !== undefined) Object.assign(one, { triggersPerSecond, saturated });
      }
    },
  };
}
