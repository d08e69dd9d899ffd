import { LIMITS } from '../../core/limits.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Operation, OperationStore } from '../../ports/operation-store.ts';

/** An operation has ended when its upload has and every line of it was counted. */
function endedBefore({ state, acceptedMs, lines, counts }: Operation, beforeMs: number): boolean {
  const counted = counts.created + counts.updated + counts.unchanged + counts.failed;
  return state === 'accepted' && acceptedMs! < beforeMs && counted >= lines;
}

export function memoryOperationStore(clock: Clock): OperationStore {
  const operations = new Map<string, Operation>();
  const at = (cluster: string, key: string): string => `${cluster}/${key}`;
  return {
    async start(operation) {
      const place = at(operation.cluster, operation.key);
      const stored = operations.get(place);
      if (stored === undefined) operations.set(place, structuredClone(operation));
      return { operation: structuredClone(stored ?? operation), started: stored === undefined };
    },
    get: async (cluster, key) => structuredClone(operations.get(at(cluster, key)) ?? null),
    async received(cluster, key, lines, hash) {
      const operation = operations.get(at(cluster, key));
      if (operation?.state === 'receiving' && lines > operation.lines) Object.assign(operation, { lines, hash });
    },
    async accepted(cluster, key, lines, hash) {
      const operation = operations.get(at(cluster, key));
      if (operation?.state !== 'receiving') return;
      Object.assign(operation, { state: 'accepted', acceptedMs: clock.wallMs(), lines, hash });
    },
    async count({ cluster, key, partition, fromOffset, toOffset, counts, errors }) {
      const operation = operations.get(at(cluster, key));
      if (operation === undefined || (operation.counted[partition] ?? -1) !== fromOffset) return false;
      operation.counted[partition] = toOffset;
      for (const name of ['created', 'updated', 'unchanged', 'failed'] as const) {
        operation.counts[name] += counts[name] ?? 0;
      }
      const room = Math.max(0, LIMITS.operationErrors - operation.errors.length);
      operation.errors.push(...structuredClone(errors.slice(0, room)));
      return true;
    },
    async list(cluster, limit) {
      const own = [...operations.values()].filter((operation) => operation.cluster === cluster);
      return structuredClone(own.sort((a, b) => b.startedMs - a.startedMs).slice(0, limit));
    },
    async sweep(beforeMs, limit) {
      const ended = [...operations].filter(([, operation]) => endedBefore(operation, beforeMs)).slice(0, limit);
      for (const [place] of ended) operations.delete(place);
      return ended.length;
    },
  };
}
