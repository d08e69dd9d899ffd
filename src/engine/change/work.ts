import type { Cluster } from '../../core/job.ts';
import { type Change, changeKey, decodeMessage } from '../../core/messages.ts';
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

/**
 * Groups the records of one partition's batch by job. Bytes that are no change are counted and left out: they must not stop
 * the rest.
 */
export async function groupByJob(
  partition: number,
  records: readonly BusRecord[],
  clusters: ClusterNames,
  telemetry: Telemetry,
): Promise<Work[]> {
  const works = new Map<string, Work>();
  for (const { offset, value } of records) {
    const change = value === null ? null : decodeMessage<Change>(value);
    if (change === null || !isChange(change)) {
      telemetry.count('changes_unreadable_total');
      telemetry.event('error', 'a change cannot be read and is left out', { partition, offset });
      continue;
    }
    const name = changeKey(change.cluster, change.key);
    const work = works.get(name);
    if (work !== undefined) work.records.push({ offset, change });
    else {
      const cluster = await clusters.find(change.cluster);
      works.set(name, { partition, cluster, key: change.key, records: [{ offset, change }], sequence: NOT_YET });
    }
  }
  for (const work of works.values()) if (work.cluster === null) work.sequence = refused(work.records);
  return [...works.values()];
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
