import { carillonError } from '../../core/errors.ts';
import type { Delivery, Job, Place } from '../../core/job.ts';
import { changeKey } from '../../core/messages.ts';
import type { CatalogStore } from '../../ports/catalog-store.ts';
import type { JobStore } from '../../ports/job-store.ts';
import { Calendars } from './calendars.ts';
import type { Places } from './places.ts';
import { applyInOrder } from './sequence.ts';
import type { Work } from './work.ts';

/** Rounds in which writes that lost a race are decided again; more means that another applier works on this partition. */
const WRITE_ROUNDS = 5;
/** Keys of one question to the job store, and documents of one write. */
const JOBS_AT_ONCE = 5_000;

export interface WriteContext {
  jobs: JobStore;
  catalog: CatalogStore;
  places: Places;
  /** UTC ms. */
  nowMs: number;
  /** Whether a partition of these works was taken away. */
  isOver: () => boolean;
}

/** Decides all works and writes their documents; those that lost a race are read and decided again. */
export async function writeJobs(works: readonly Work[], context: WriteContext): Promise<void> {
  const { jobs, catalog, places, nowMs, isOver } = context;
  let open = works.filter(({ cluster }) => cluster !== null);
  for (let round = 0; open.length > 0; round++) {
    if (round === WRITE_ROUNDS) {
      throw carillonError('unavailable', 'jobs change under their applier; the batch is repeated');
    }
    const stored = await read(open, jobs);
    const used = open.some(({ records }) => records.some(saysCalendars)) || [...stored.values()].some(hasCalendars);
    const calendars = new Calendars(used ? await catalog.calendars() : []);
    for (const [delivery, wanted] of Object.entries(placesFor(open, stored))) {
      await places.hold(delivery as Delivery, wanted, isOver);
    }
    for (const work of open) {
      const { name, delivery } = work.cluster!;
      work.sequence = applyInOrder(stored.get(changeKey(name, work.key)) ?? null, work.records, {
        partition: work.partition,
        calendars,
        nowMs,
        takePlace: (): Place | null => places.take(delivery),
      });
    }
    open = await store(open, jobs);
  }
}

/** The calendars that stored works use, as they stand now; none are read where none are used. */
export async function calendarsNow(works: readonly Work[], catalog: CatalogStore): Promise<Calendars> {
  const used = works.some(({ sequence: { final } }) => final !== null && hasCalendars(final));
  return new Calendars(used ? await catalog.calendars() : []);
}

function hasCalendars({ bounds }: Job): boolean {
  return bounds.calendars !== undefined;
}

function saysCalendars({ change: { action } }: Work['records'][number]): boolean {
  if (action.kind === 'put') return action.definition.bounds.calendars !== undefined;
  return action.kind === 'patch' && action.fields.bounds?.calendars != null;
}

async function read(works: readonly Work[], jobs: JobStore): Promise<Map<string, Job>> {
  const found = new Map<string, Job>();
  for (let from = 0; from < works.length; from += JOBS_AT_ONCE) {
    const keys = works.slice(from, from + JOBS_AT_ONCE).map(({ cluster, key }) => ({ cluster: cluster!.name, key }));
    for (const job of await jobs.getMany(keys)) found.set(changeKey(job.cluster, job.key), job);
  }
  return found;
}

/** An upper bound of the places that the works may take: one for each key that may be made (again), or moves. */
function placesFor(works: readonly Work[], stored: ReadonlyMap<string, Job>): Record<Delivery, number> {
  const wanted: Record<Delivery, number> = { 'at-least-once': 0, 'exactly-once': 0 };
  for (const { cluster, key, records } of works) {
    const job = stored.get(changeKey(cluster!.name, key));
    wanted[cluster!.delivery] += records.filter(({ change: { action } }) => {
      return action.kind === 'move' && (action.step === 'go' || (action.step === 'begin' && job?.state !== 'enabled'));
    }).length;
    if (!records.some(({ change }) => change.action.kind === 'put')) continue;
    const deletes = records.filter(({ change }) => change.action.kind === 'delete').length;
    wanted[cluster!.delivery] += (job === undefined || job.deleted ? 1 : 0) + deletes;
  }
  return wanted;
}

/** Writes the documents; answers the works whose write lost a race. */
async function store(works: readonly Work[], jobs: JobStore): Promise<Work[]> {
  const changed = works.filter(({ sequence }) => sequence.final !== sequence.stored);
  const lost: Work[] = [];
  for (let from = 0; from < changed.length; from += JOBS_AT_ONCE) {
    const part = changed.slice(from, from + JOBS_AT_ONCE);
    const inserts = part.filter(({ sequence }) => sequence.stored === null);
    const replaces = part.filter(({ sequence }) => sequence.stored !== null);
    if (inserts.length > 0) {
      const went = await jobs.insertMany(inserts.map(({ sequence }) => sequence.final!));
      lost.push(...inserts.filter((_, index) => !went[index]));
    }
    if (replaces.length > 0) {
      const went = await jobs.replaceMany(
        replaces.map(({ sequence: { final, stored } }) => ({
          job: final!,
          expected: { version: stored!.version, offset: stored!.position.offset },
        })),
      );
      lost.push(...replaces.filter((_, index) => !went[index]));
    }
  }
  return lost;
}
