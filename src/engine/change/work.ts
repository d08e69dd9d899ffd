import type { Cluster } from '../../core/job.ts';
import { changeOfLine, hasLines, type Line, type PlacedLine, readLines } from '../../core/lines.ts';
import { type Change, decodeMessage } from '../../core/messages.ts';
import type { BusRecord } from '../../ports/bus.ts';
import type { CatalogStore } from '../../ports/catalog-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { ChangeRecord, Sequence } from './sequence.ts';

/** All changes of one job in a batch, and what they came to. */
export interface Work {
  /** Of the changes topic. */
  partition: number;
  cluster: Cluster | null;
  key: string;
  records: ChangeRecord[];
  sequence: Sequence;
}

/** Clusters by name. They never change, so one that was found is kept. */
export class ClusterNames {
  readonly #catalog: CatalogStore;
  readonly #known = new Map<string, Cluster>();

  constructor(catalog: CatalogStore) {
    this.#catalog = catalog;
  }

  async find(name: string): Promise<Cluster | null> {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const found = await this.#catalog.cluster(name);
    if (found !== null) this.#known.set(name, found);
    return found;
  }
}

/** Lines of a bulk whose jobs have no other change in the batch. */
export interface LineWork {
  cluster: Cluster;
  line: PlacedLine;
}

/** What one partition's batch asks for. */
export interface Grouped {
  works: Work[];
  lines: LineWork[];
}

/**
 * Groups the records of one partition's batch by job. Bytes that are no change are counted and left out: they must not stop
 * the rest.
 */
export async function groupByJob(
  partition: number,
  records: readonly BusRecord[],
  clusters: ClusterNames,
  telemetry: Telemetry,
): Promise<Grouped> {
  /** By cluster and key: a line stands there until a second change of its job comes. */
  const found = new Map<string, Map<string, Work | LineWork>>();
  const jobsOf = (cluster: string): Map<string, Work | LineWork> => {
    const known = found.get(cluster);
    if (known !== undefined) return known;
    const jobs = new Map<string, Work | LineWork>();
    found.set(cluster, jobs);
    return jobs;
  };
  const add = (cluster: Cluster | null, offset: number, change: Change): void => {
    const jobs = jobsOf(change.cluster);
    const known = jobs.get(change.key);
    const work = known === undefined ? workOf(partition, cluster, change.key) : asWork(known);
    work.records.push({ offset, change });
    jobs.set(change.key, work);
  };
  for (const { offset, value } of records) {
    const read = readChanges(value);
    if (read === null) {
      telemetry.count('changes_unreadable_total');
      telemetry.event('error', 'a change cannot be read and is left out', { partition, offset });
    } else if (!Array.isArray(read)) add(await clusters.find(read.cluster), offset, read);
    else if (read.length > 0) {
      const cluster = await clusters.find(read[0]!.cluster);
      const jobs = jobsOf(read[0]!.cluster);
      for (const line of read) {
        if (cluster === null || jobs.has(line.key)) add(cluster, offset, changeOfLine(line));
        else jobs.set(line.key, { cluster, line: Object.assign(line, { partition, offset, shard: -1, number: -1 }) });
      }
    }
  }
  const grouped: Grouped = { works: [], lines: [] };
  for (const jobs of found.values()) {
    for (const one of jobs.values()) {
      if ('line' in one) grouped.lines.push(one);
      else grouped.works.push(one);
    }
  }
  for (const work of grouped.works) if (work.cluster === null) work.sequence = refused(work.records);
  return grouped;
}

/** A change, the lines of a bulk, or null for bytes of another form. */
function readChanges(value: Uint8Array | null): Change | Line[] | null {
  if (value === null) return null;
  if (!hasLines(value)) {
    const change = decodeMessage<Change>(value);
    return change !== null && isChange(change) ? change : null;
  }
  try {
    return readLines(value);
  } catch {
    return null;
  }
}

function workOf(partition: number, cluster: Cluster | null, key: string): Work {
  return { partition, cluster, key, records: [], sequence: NOT_YET };
}

/** A line as any other change. */
export function asWork(one: Work | LineWork): Work {
  if (!('line' in one)) return one;
  const { cluster, line } = one;
  const work = workOf(line.partition, cluster, line.key);
  work.records.push({ offset: line.offset, change: changeOfLine(line) });
  return work;
}

const NOT_YET: Sequence = {
  stored: null,
  final: null,
  done: [],
  first: 0,
  last: 0,
  former: { version: 0, records: [] },
  left: [],
  tell: false,
};

function refused(records: readonly ChangeRecord[]): Sequence {
  const done = records.map((record) => ({
    ...record,
    outcome: { ok: false, code: 'cluster-not-found', detail: `"${record.change.cluster}"` } as const,
    repeated: false,
    ended: [],
    job: null,
  }));
  return { ...NOT_YET, done };
}

const KINDS: ReadonlySet<string> = new Set([
  'put',
  'patch',
  'delete',
  'pause',
  'resume',
  'terminate',
  'recompute',
  'fire',
  'move',
]);

function isChange(change: Change): boolean {
  return (
    typeof change.id === 'string' &&
    typeof change.cluster === 'string' &&
    typeof change.key === 'string' &&
    Number.isSafeInteger(change.atMs) &&
    typeof change.action === 'object' &&
    KINDS.has(change.action?.kind)
  );
}
