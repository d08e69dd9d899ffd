/**
 * Which worker has which slot: pure, and decided anew each round from what is there. Balance goes by load per capacity;
 * a worker's capacity is its number of wheels. Four rules:
 * - A free slot is given at once, all of them in one round, the heaviest first, each to the worker that is then least loaded.
 * - A slot is asked back only when its owner carries clearly more than the worker that would get it, and the move lowers
 *   the greater load of the two by a good part of the slot: so measured rates may swing without slots wandering, and moves
 *   come to an end, since the sum of (load squared times capacity) falls with each.
 * - Few slots are under way at once; those under way count for the worker that will get them.
 * - A worker whose wheels lag gets no slot while there is one that does not, and gives slots away without the margin.
 */
export interface AllotWorker {
  /** Incarnation. */
  id: string;
  /** Relative capacity, above 0: its number of wheels. */
  capacity: number;
  lagging: boolean;
}

export interface AllotSlot {
  /** Unique over both sets. */
  id: string;
  /** Incarnation, or null: free. Every owner is among the workers. */
  owner: string | null;
  /** Its owner has been asked to let go. */
  releasing: boolean;
  /** Load, above 0 (`slotWeight`). */
  weight: number;
  /** Not to be asked back now, for instance after a release that hung. */
  pinned?: boolean;
}

export interface AllotPlan {
  /** Free slots and who gets them. */
  assign: { slot: string; worker: string }[];
  /** Slots to ask back from their owners. */
  release: string[];
  /** Slots asked back that their owners shall keep after all: nobody would be better off. */
  keep: string[];
}

export interface AllotRules {
  /** Two workers whose loads differ by less than this part of the average load are balanced. */
  margin: number;
  /** Least gain of a move, as a part of the load that the slot is for its owner. */
  leastGain: number;
  /** Greatest part of all slots that are under way at once (at least one slot is). */
  underWay: number;
}

const ALLOT_RULES: AllotRules = { margin: 0.1, leastGain: 0.25, underWay: 1 / 8 };

/** Worth of an idle job and of a slot as such, in triggers/s: with no rates measured, jobs and then numbers decide. */
const JOB_WEIGHT = 0.01;
const SLOT_WEIGHT = 1;

/** Load of a slot. Example: 400 triggers/s, 20,000 jobs -> 400 + 200 + 1 = 601. */
export function slotWeight(triggersPerSecond: number, jobs: number): number {
  return triggersPerSecond + jobs * JOB_WEIGHT + SLOT_WEIGHT;
}

export function allot(
  workers: readonly AllotWorker[],
  slots: readonly AllotSlot[],
  rules: AllotRules = ALLOT_RULES,
): AllotPlan {
  const plan: AllotPlan = { assign: [], release: [], keep: [] };
  if (workers.length === 0) return plan;
  const book = new Book(workers);
  for (const slot of slots) if (slot.owner !== null) book.add(slot.owner, slot);

  for (const slot of byWeight(slots.filter((one) => one.owner === null))) {
    const worker = book.leastLoaded(slot);
    book.add(worker.id, slot);
    plan.assign.push({ slot: slot.id, worker: worker.id });
  }
  let underWay = 0;
  for (const slot of byWeight(slots.filter((one) => one.owner !== null && one.releasing))) {
    const to = book.receiver(slot);
    if (to === null) {
      plan.keep.push(slot.id);
      continue;
    }
    book.move(slot, to);
    underWay += 1;
  }
  const most = Math.max(1, Math.floor(slots.length * rules.underWay));
  const asked = new Set([...plan.keep, ...slots.filter((one) => one.releasing).map((one) => one.id)]);
  const movable = slots.filter((one) => one.owner !== null && one.pinned !== true && !asked.has(one.id));
  for (; underWay < most; underWay++) {
    const move = book.bestMove(movable, rules);
    if (move === null) break;
    book.move(move.slot, move.to);
    plan.release.push(move.slot.id);
    movable.splice(movable.indexOf(move.slot), 1);
  }
  return plan;
}

/** Heaviest first; equal ones by name, so that every manager decides the same. */
function byWeight(slots: AllotSlot[]): AllotSlot[] {
  return slots.sort((a, b) => b.weight - a.weight || (a.id < b.id ? -1 : 1));
}

interface Account {
  id: string;
  capacity: number;
  lagging: boolean;
  weight: number;
}

/** Who would carry how much, as the plan grows. */
class Book {
  readonly #accounts = new Map<string, Account>();
  /** Present holder of each owned slot in the plan. */
  readonly #holder = new Map<string, Account>();

  constructor(workers: readonly AllotWorker[]) {
    const sorted = [...workers].sort((a, b) => (a.id < b.id ? -1 : 1));
    for (const { id, capacity, lagging } of sorted) this.#accounts.set(id, { id, capacity, lagging, weight: 0 });
  }

  add(worker: string, slot: AllotSlot): void {
    const account = this.#accounts.get(worker);
    if (account === undefined) return;
    account.weight += slot.weight;
    this.#holder.set(slot.id, account);
  }

  move(slot: AllotSlot, to: Account): void {
    const from = this.#holder.get(slot.id);
    if (from !== undefined) from.weight -= slot.weight;
    to.weight += slot.weight;
    this.#holder.set(slot.id, to);
  }

  averageLoad(): number {
    let weight = 0;
    let capacity = 0;
    for (const account of this.#accounts.values()) {
      weight += account.weight;
      capacity += account.capacity;
    }
    return weight / capacity;
  }

  leastLoaded(slot: AllotSlot): Account {
    let best: Account | null = null;
    for (const account of this.#accounts.values()) {
      if (best === null || precedes(account, best, slot.weight)) best = account;
    }
    return best!;
  }

  /** Who gets a slot that its owner is letting go: null when that would leave somebody with more than the owner has now. */
  receiver(slot: AllotSlot): Account | null {
    const owner = this.#holder.get(slot.id);
    if (owner === undefined) return null;
    owner.weight -= slot.weight;
    const to = this.leastLoaded(slot);
    owner.weight += slot.weight;
    if (to === owner) return null;
    return gain(slot, owner, to) > 0 ? to : null;
  }

  /** The move that lowers the greater of two loads most, or null when all are balanced. */
  bestMove(movable: readonly AllotSlot[], rules: AllotRules): { slot: AllotSlot; to: Account } | null {
    const accounts = [...this.#accounts.values()];
    const unburdened = accounts.filter((account) => !account.lagging);
    const receivers = unburdened.length > 0 ? unburdened : accounts;
    const gap = rules.margin * this.averageLoad();
    let best: { slot: AllotSlot; to: Account; gain: number } | null = null;
    for (const slot of movable) {
      const from = this.#holder.get(slot.id);
      if (from === undefined) continue;
      const least = (rules.leastGain * slot.weight) / from.capacity;
      for (const to of receivers) {
        const relieved = from.lagging && !to.lagging;
        if (to === from || (!relieved && load(from) - load(to) <= gap)) continue;
        const gained = gain(slot, from, to);
        if (gained >= least && (best === null || gained > best.gain)) best = { slot, to, gain: gained };
      }
    }
    return best;
  }
}

/**
 * By how much a move lowers the greater load of the two. Example: loads 8 and 2, a slot of 3, capacity 1 each: afterwards
 * 5 and 5, so 3; a slot of 6 gives 2 and 8: 0.
 */
function gain(slot: AllotSlot, from: Account, to: Account): number {
  const before = Math.max(load(from), load(to));
  const after = Math.max((from.weight - slot.weight) / from.capacity, (to.weight + slot.weight) / to.capacity);
  return before - after;
}

function load(account: Account): number {
  return account.weight / account.capacity;
}

/** Whether `a` comes before `b` as the one to get a slot of this weight. */
function precedes(a: Account, b: Account, weight: number): boolean {
  if (a.lagging !== b.lagging) return b.lagging;
  return (a.weight + weight) / a.capacity < (b.weight + weight) / b.capacity;
}
