import type { Delivery } from './job.ts';
import { LIMITS } from './limits.ts';

/**
 * How many shards there are, which of them take jobs, and in which slots: pure, decided anew from what is there. Growth is
 * ahead of need, by what is placed per second; a shard stops taking jobs (is saturated) for three reasons - full, too many
 * triggers per second, an owner whose wheels lag - each with a threshold to enter and a lower one to leave.
 */
export interface ShardFacts {
  id: number;
  delivery: Delivery;
  slot: number;
  state: 'new' | 'open' | 'draining' | 'closed';
  jobs: number;
  triggersPerSecond: number;
  saturated: boolean;
}

export interface SlotFacts {
  slot: number;
  triggersPerSecond: number;
  /** The wheels of its owner lag, by the owner's own hysteresis (`lagging`). */
  lagging: boolean;
}

/** Part of the jobs of a set that must be free beyond, when nothing else asks for more. */
const FREE_PART = 0.2;
/** Free places reach for this many seconds of placing at the rate of now: making and opening a shard takes under one. */
const PLACING_AHEAD_S = 3;
/**
 * Shards at the first start, one per slot: few slots with work make few requests. (m, 10,000/s exactly-once, 2 slots instead of 8
 * begin with work: the broker's CPU 0.56 -> 0.46 of a core, p99 32 -> 25 ms.) More come as jobs do, and go to other slots.
 */
const FIRST_SHARDS = 2;
/** Shards that one round may make, however few there are; so many stay, however empty. */
const FEW_SHARDS = 8;
/** Shards made in one round at most, as a part of those that are there: growth doubles at best. */
const GROWTH_PART = 1;

/** Jobs, as a part of the capacity, below which a full shard takes jobs again. */
const REFILL_PART = 0.95;
/** Triggers per second, as a part of the limit, below which a shard is no longer too busy. */
const CALM_PART = 0.8;

/**
 * Wheel lag at which a worker counts as lagging, and below which it no longer does, in ms: a wheel that keeps up on a full machine
 * lies up to 25 ms back between two of its rounds.
 */
const LAG_ENTER_MS = 100;
const LAG_LEAVE_MS = 50;

/** Whether a worker lags, with hysteresis. `before` is the last answer. */
export function lagging(wheelLagMs: number, before: boolean): boolean {
  return wheelLagMs >= (before ? LAG_LEAVE_MS : LAG_ENTER_MS);
}

/** Whether a shard takes no jobs for now, with hysteresis over `shard.saturated`. */
export function saturated(shard: ShardFacts, ownerLagging: boolean): boolean {
  if (ownerLagging) return true;
  const most = { jobs: LIMITS.shardJobs, rate: LIMITS.shardTriggersPerSecond };
  if (!shard.saturated) return shard.jobs >= most.jobs || shard.triggersPerSecond >= most.rate;
  return shard.jobs >= most.jobs * REFILL_PART || shard.triggersPerSecond >= most.rate * CALM_PART;
}

/** Free places of shards that take jobs or will in a moment. */
export function freePlaces(shards: readonly ShardFacts[]): number {
  return shards
    .filter((shard) => takesJobs(shard) && !shard.saturated)
    .reduce((sum, shard) => sum + Math.max(0, LIMITS.shardJobs - shard.jobs), 0);
}

/**
 * Free places that a set must have. Example: 60,000 jobs, 50,000 placed per second -> the greatest of 10,000 (one shard),
 * 12,000 (a fifth), 150,000 (three seconds).
 */
export function wantedPlaces(jobs: number, placedPerSecond: number): number {
  return Math.max(LIMITS.shardJobs, Math.ceil(jobs * FREE_PART), Math.ceil(placedPerSecond * PLACING_AHEAD_S));
}

export interface GrowthPlan {
  /** Slots of the shards to make, one entry per shard. */
  create: number[];
  /** Draining shards that take jobs again: cheaper than a new one. */
  reopen: number[];
}

/** What one set lacks. `shards` are those of the set, closed ones included; `slots` all slots of the set. */
export function planGrowth(
  shards: readonly ShardFacts[],
  slots: readonly SlotFacts[],
  placedPerSecond: number,
): GrowthPlan {
  const plan: GrowthPlan = { create: [], reopen: [] };
  if (slots.length === 0) return plan;
  const living = shards.filter((shard) => shard.state !== 'closed');
  const jobs = living.reduce((sum, shard) => sum + shard.jobs, 0);
  let missing = wantedPlaces(jobs, placedPerSecond) - freePlaces(living);
  const draining = living.filter((shard) => shard.state === 'draining').sort((a, b) => a.jobs - b.jobs);
  for (const shard of draining) {
    if (missing <= 0) break;
    plan.reopen.push(shard.id);
    missing -= LIMITS.shardJobs - shard.jobs;
  }
  const first = Math.min(slots.length, FIRST_SHARDS) - living.length;
  const needed = Math.max(first, Math.ceil(missing / LIMITS.shardJobs));
  const most = Math.max(FEW_SHARDS, living.length * GROWTH_PART);
  // A shard in a slot whose wheels lag would be saturated at once, so where all lag nothing is made: jobs must wait.
  const keepingUp = slots.filter((slot) => !slot.lagging);
  if (keepingUp.length === 0 && first <= 0) return plan;
  const load = slotLoads(living, keepingUp.length > 0 ? keepingUp : slots);
  for (let n = 0; n < Math.min(needed, most); n++) {
    const best = load.reduce((a, b) => (fewer(b, a) ? b : a));
    best.shards += 1;
    plan.create.push(best.slot);
  }
  return plan;
}

interface SlotLoad extends SlotFacts {
  shards: number;
  jobs: number;
}

function slotLoads(shards: readonly ShardFacts[], slots: readonly SlotFacts[]): SlotLoad[] {
  return slots.map((slot) => {
    const own = shards.filter((shard) => shard.slot === slot.slot);
    return { ...slot, shards: own.length, jobs: own.reduce((sum, shard) => sum + shard.jobs, 0) };
  });
}

/** Whether a new shard belongs to slot `a` rather than `b`: few shards, then few triggers, then few jobs. */
function fewer(a: SlotLoad, b: SlotLoad): boolean {
  if (a.shards !== b.shards) return a.shards < b.shards;
  if (a.triggersPerSecond !== b.triggersPerSecond) return a.triggersPerSecond < b.triggersPerSecond;
  if (a.jobs !== b.jobs) return a.jobs < b.jobs;
  return a.slot < b.slot;
}

/** A shard that holds less than this part of its capacity is nearly empty. */
const NEARLY_EMPTY_PART = 0.1;
/** Shrinking starts when this many times the wanted places are free, far above where growth stops. */
const SHRINK_ABOVE = 4;

/**
 * Shards to drain when far too many are nearly empty, the emptiest first. What stays open has at least twice the places
 * that growth wants, so that the two never chase each other; a few always stay.
 */
export function planShrink(shards: readonly ShardFacts[], slotCount: number, placedPerSecond: number): number[] {
  const open = shards.filter((shard) => shard.state === 'open');
  const jobs = shards.reduce((sum, shard) => sum + shard.jobs, 0);
  const wanted = wantedPlaces(jobs, placedPerSecond);
  let free = freePlaces(open);
  if (free < wanted * SHRINK_ABOVE) return [];
  let left = open.length;
  const drain: number[] = [];
  for (const shard of [...open].sort((a, b) => a.jobs - b.jobs || b.id - a.id)) {
    const places = shard.saturated ? 0 : LIMITS.shardJobs - shard.jobs;
    if (shard.jobs >= LIMITS.shardJobs * NEARLY_EMPTY_PART) break;
    if (left <= Math.min(slotCount, FEW_SHARDS) || free - places - shard.jobs < wanted * 2) break;
    drain.push(shard.id);
    free -= places + shard.jobs;
    left -= 1;
  }
  return drain;
}

function takesJobs(shard: ShardFacts): boolean {
  return shard.state === 'open' || shard.state === 'new';
}
