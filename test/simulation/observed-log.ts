import type { Log } from '../../src/adapters/local/log.ts';
import type { Oracle } from './oracle.ts';

/** In this order the records of one write are shown: what progress answers for stands before it. */
const LAST = ['carillon.changes', 'carillon.fast', 'carillon.cursors', 'carillon.answers', 'carillon.progress'];

/** A log that shows the oracle everything as it becomes durable. */
export function observedLog<L extends Log>(log: L, oracle: Oracle): L {
  const seen = new Map<string, number>();
  const show = (topic: string, partition: number): void => {
    const name = `${topic}/${partition}`;
    const records = log.read(topic, partition, seen.get(name) ?? 0, 1_000_000);
    if (records.length === 0) return;
    seen.set(name, records.at(-1)!.offset + 1);
    for (const record of records) oracle.appended(topic, record);
  };
  const write: Log['write'] = (entries) => {
    const results = log.write(entries);
    const touched = new Map<string, Set<number>>();
    for (const { topic, messages } of entries.flatMap(({ batch }) => batch)) {
      const partitions = touched.get(topic) ?? new Set<number>();
      touched.set(topic, partitions);
      for (const { partition } of messages) partitions.add(partition);
    }
    const topics = [...touched.keys()].sort((a, b) => LAST.indexOf(a) - LAST.indexOf(b));
    for (const topic of topics) for (const partition of touched.get(topic)!) show(topic, partition);
    for (const [index, { offsets }] of entries.entries()) {
      const result = results[index]!;
      if (result.fenced || result.failures.length > 0) continue;
      for (const { topic, partition, next } of offsets) {
        if (topic === 'carillon.changes') oracle.changesCommitted(partition, next);
      }
    }
    return results;
  };
  const deleteTopics: Log['deleteTopics'] = (names) => {
    log.deleteTopics(names);
    for (const name of seen.keys()) if (names.some((topic) => name.startsWith(`${topic}/`))) seen.delete(name);
  };
  return new Proxy(log, {
    get: (target, name) => {
      if (name === 'write') return write;
      if (name === 'deleteTopics') return deleteTopics;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
