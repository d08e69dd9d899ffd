import type { JobUse } from '../ports/job-store.ts';
import type { ApiDeps } from './deps.ts';

const PAGE = 500;

/**
 * Sends a `recompute` to every job that uses something which changed; answers how many. `name` names what changed and its
 * version: sent again after a crash, jobs that had it as their last change are left as they are.
 */
export async function recompute(
  { stores, changes, clock }: Pick<ApiDeps, 'stores' | 'changes' | 'clock'>,
  use: JobUse,
  name: string,
): Promise<number> {
  let after: { cluster: string; key: string } | null = null;
  for (let count = 0; ; ) {
    const jobs = await stores.jobs.using(use, after, PAGE);
    const last = jobs.at(-1);
    if (last === undefined) return count;
    const atMs = clock.wallMs();
    await changes.send(
      jobs.map(({ cluster, key }) =>
        changes.message({ v: 1, id: name, cluster, key, atMs, action: { kind: 'recompute', reason: name } }),
      ),
    );
    count += jobs.length;
    after = { cluster: last.cluster, key: last.key };
  }
}
