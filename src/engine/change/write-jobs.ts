import { carillonError } from '../../core/errors.ts';
import type { Delivery, Job, Place } from '../../core/job.ts';
import { changeKey } from '../../core/messages.ts';
import type { CatalogStore } from '../../ports/catalog-store.ts';
import type { JobStore } from '../../ports/job-store.ts';
import { Calendars } from './calendars.ts';
import { HeldPlaces, type Places } from './places.ts';
import { applyInOrder } from './sequence.ts';
import { asWork, type Grouped, type LineWork, type Work } from './work.ts';

/** Rounds in which writes that lost a race are decided again; more means that another applier works on this partition. */
const WRITE_ROUNDS = 5;
/** Keys of one question to the job store. */
const KEYS_AT_ONCE = 5_000;
/** Documents of one write: several are under way at once, so that the store works on one while the next is made. */
const JOBS_AT_ONCE = 2_000;

/** From so many on, keys that a batch puts are inserted without a look whether they are there. */
const BLIND_FROM = 32;

export interface WriteContext {
  /** UTC ms. */
  nowMs: number;
  /** Whether a partition of these works was taken away. */
  isOver: () => boolean;
}

/**
 * Decides works and writes their documents. Where a batch puts many jobs they are taken for new ones, as long as most of
 * them were new the last time; so are those that are to be made only if they are not there. They are decided and inserted
 * without being read, the unique key is the guard, and only those that are there already are read and decided again. (m: a
 * read of 5,000 keys that are not there costs a third of their insertion.)
 */
export class JobWriter {
  readonly #jobs: JobStore;
  readonly #catalog: CatalogStore;
  readonly #places: Places;
  #mostAreNew = true;

  constructor(jobs: JobStore, catalog: CatalogStore, places: Places) {
    this.#jobs = jobs;
    this.#catalog = catalog;
    this.#places = places;
  }

  /** Decides and writes all of it; answers the lines that made jobs, and the works, those of all other lines among them. */
  async write({ works, lines }: Grouped, context: WriteContext): Promise<Grouped> {
    const blind = this.#mostAreNew && lines.length >= BLIND_FROM;
    const read = blind ? [] : lines.map(asWork);
    const [left] = await Promise.all([
      blind ? this.#insertLines(lines, context) : NO_LINES,
      this.#writeWorks([...works, ...read], context),
    ]);
    if (left.size === 0) return { works: [...works, ...read], lines: blind ? lines : [] };
    this.#mostAreNew = left.size * 2 <= lines.length;
    const again = [...left].map(asWork);
    await this.#writeWorks(again, context);
    return { works: [...works, ...again], lines: lines.filter((line) => !left.has(line)) };
  }

  /** Gives each line a place and inserts its job unread; answers those that are there already, or have no place. */
  async #insertLines(lines: readonly LineWork[], { isOver }: WriteContext): Promise<Set<LineWork>> {
    const left = new Set<LineWork>();
    const insert = async (part: readonly LineWork[], held: HeldPlaces): Promise<void> => {
      const went = await this.#jobs.insertLines(part.map(({ line }) => line));
      for (const [index, one] of part.entries()) {
        if (went[index]) continue;
        left.add(one);
        held.putBack({ shard: one.line.shard, number: one.line.number });
      }
    };
    for (const delivery of DELIVERIES) {
      const own = lines.filter(({ cluster }) => cluster.delivery === delivery);
      const held = await this.#places.hold(delivery, own.length, { isOver, isBulk: true });
      try {
        const placed = own.slice(0, held.place(own.map(({ line }) => line)));
        for (const one of own.slice(placed.length)) left.add(one);
        await Promise.all(partsOf(placed).map((part) => insert(part, held)));
      } finally {
        this.#places.release(delivery, held);
      }
    }
    return left;
  }

  /** Works that lost a race are read and decided again. */
  async #writeWorks(works: readonly Work[], context: WriteContext): Promise<void> {
    let open = works.filter(({ cluster }) => cluster !== null);
    const puts = open.filter(beginsWithPut);
    const areNew = this.#mostAreNew && puts.length >= BLIND_FROM;
    const blind = new Set(areNew ? puts : puts.filter(isForNew));
    open = await this.#round(open, blind, context);
    if (puts.length >= BLIND_FROM) {
      const again = new Set(open);
      const known = puts.filter((work) => (blind.has(work) ? again.has(work) : work.sequence.stored !== null));
      this.#mostAreNew = known.length * 2 <= puts.length;
    }
    for (let round = 1; open.length > 0; round++) {
      if (round === WRITE_ROUNDS) {
        throw carillonError('unavailable', 'jobs change under their applier; the batch is repeated');
      }
      open = await this.#round(open, NONE, context);
    }
  }

  /** Answers the works that have to be done again. */
  async #round(works: readonly Work[], blind: ReadonlySet<Work>, context: WriteContext): Promise<Work[]> {
    const { nowMs, isOver } = context;
    const asker = { isOver, isBulk: works.some(({ records }) => records.some(isLine)) };
    const asked = blind.size === 0 ? works : works.filter((work) => !blind.has(work));
    const stored = await read(asked, this.#jobs);
    const used = works.some(({ records }) => records.some(saysCalendars)) || [...stored.values()].some(hasCalendars);
    const calendars = new Calendars(used ? await this.#catalog.calendars() : []);
    const wanted = placesFor(works, stored);
    const held = { 'at-least-once': new HeldPlaces(), 'exactly-once': new HeldPlaces() };
    try {
      for (const delivery of DELIVERIES) held[delivery] = await this.#places.hold(delivery, wanted[delivery], asker);
      const taken = new Map<Work, Place[]>();
      for (const work of works) {
        const { name, delivery } = work.cluster!;
        work.sequence = applyInOrder(stored.get(changeKey(name, work.key)) ?? null, work.records, {
          partition: work.partition,
          calendars,
          nowMs,
          takePlace: (): Place | null => {
            const place = held[delivery].take();
            if (place !== null && blind.has(work)) taken.set(work, [...(taken.get(work) ?? []), place]);
            return place;
          },
        });
      }
      const lost = new Set(await store(works, this.#jobs));
      for (const work of blind) {
        // What was refused may be right for a job that is there.
        if (work.sequence.final === null) lost.add(work);
        if (!lost.has(work)) continue;
        for (const place of taken.get(work) ?? []) held[work.cluster!.delivery].putBack(place);
      }
      return [...lost];
    } finally {
      for (const delivery of DELIVERIES) this.#places.release(delivery, held[delivery]);
    }
  }
}

const DELIVERIES = ['at-least-once', 'exactly-once'] as const satisfies readonly Delivery[];
const NONE: ReadonlySet<Work> = new Set();
const NO_LINES: ReadonlySet<LineWork> = new Set();

function isLine({ change }: Work['records'][number]): boolean {
  return change.operation !== undefined;
}

function beginsWithPut({ records }: Work): boolean {
  const { action, ifVersion } = records[0]!.change;
  return action.kind === 'put' && action.onlyIf !== 'present' && ifVersion === undefined;
}

function isForNew({ records }: Work): boolean {
  const { action } = records[0]!.change;
  return action.kind === 'put' && action.onlyIf === 'absent';
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
  for (let from = 0; from < works.length; from += KEYS_AT_ONCE) {
    const keys = works.slice(from, from + KEYS_AT_ONCE).map(({ cluster, key }) => ({ cluster: cluster!.name, key }));
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
  const inserts = changed.filter(({ sequence }) => sequence.stored === null);
  const replaces = changed.filter(({ sequence }) => sequence.stored !== null);
  const insert = (part: readonly Work[]) => jobs.insertMany(part.map(({ sequence }) => sequence.final!));
  const replace = (part: readonly Work[]) =>
    jobs.replaceMany(
      part.map(({ sequence: { final, stored } }) => ({
        job: final!,
        expected: { version: stored!.version, offset: stored!.position.offset },
      })),
    );
  const lost = await Promise.all([...inParts(inserts, insert), ...inParts(replaces, replace)]);
  return lost.flat();
}

/** One write for each part; each answers those that did not go in. */
function inParts(works: readonly Work[], write: (part: readonly Work[]) => Promise<boolean[]>): Promise<Work[]>[] {
  return partsOf(works).map((part) => write(part).then((went) => part.filter((_, index) => !went[index])));
}

function partsOf<T>(all: readonly T[]): (readonly T[])[] {
  const parts: (readonly T[])[] = [];
  for (let from = 0; from < all.length; from += JOBS_AT_ONCE) parts.push(all.slice(from, from + JOBS_AT_ONCE));
  return parts;
}
