import { LIMITS } from '../../core/limits.ts';
import { misfire } from '../../core/schedule/misfire.ts';
import { NO_OCCURRENCE } from '../../core/schedule/schedule.ts';
import { isAway } from './away.ts';
import { Batch, type Item } from './batch.ts';
import { openCursor } from './cursors.ts';
import { FLIGHT, type Live, READY, WAITING } from './entries.ts';
import { MessageBatch } from './message-batch.ts';
import { cursorCovers, hasPaid, place, remove, settle, stand, standFirst } from './movement.ts';
import { nextIn, type Plan, type Position, positionAfter, type Segment } from './plan.ts';
import type { SlotState } from './slot-state.ts';

/** Entries that one call looks at: the event loop gets its turn between calls. */
const LOOKED_AT = 20_000;
/**
 * An entry that owes fewer occurrences than about so many has them taken one after the other, each after the acknowledgement of
 * the one before: a wheel that is behind by more than the period must not pay more per trigger, or it stays behind. (m,
 * 1,000,000/s of 500 ms jobs: 2.9 us a trigger instead of 0.7, and no way back.) One that owes more has them taken at once.
 */
const PLAIN_OWED = 4;
const due = new Int32Array(1_024);

/**
 * The next batch of what is due, oldest first; null: nothing is to be published now. Its entries are FLIGHT. It takes whole
 * ticks, and none that lies beyond the horizon of a shard: in an exactly-once slot what is committed must be at or before
 * the T that is committed with it.
 */
export function collect(slot: SlotState, nowMs: number): Batch | null {
  const bus = slot.options.delivery === 'exactly-once' ? slot.lane! : slot.options.producer;
  const most = slot.options.delivery === 'exactly-once' ? LIMITS.commitBatches : 1;
  const batch = new Batch(bus.triggers?.() ?? new MessageBatch(), most);
  fill(slot, batch, nowMs);
  if (batch.count > 0) return batch;
  batch.done();
  return null;
}

function fill(slot: SlotState, batch: Batch, nowMs: number): void {
  let looked = 0;
  for (let left = slot.ready.length; left > 0 && !batch.full && looked < LOOKED_AT; left -= 1, looked += 1) {
    const entry = slot.ready.shift();
    if (slot.entries.state[entry] === READY) take(slot, batch, entry, nowMs);
  }
  const upToMs = Math.min(nowMs, slot.horizonMs);
  while (!batch.filled && looked < LOOKED_AT && slot.ready.length === 0) {
    const given = takeTick(slot, batch, Math.min(upToMs, batch.plainNextMs - 1), nowMs);
    if (given === 0) break;
    looked += given;
  }
}

/** All entries of the wheel's next due millisecond; answers how many. Those without room go among the ready. */
function takeTick(slot: SlotState, batch: Batch, upToMs: number, nowMs: number): number {
  const { wheel } = slot;
  let all = 0;
  let given = wheel.advanceTo(upToMs, due);
  while (given > 0) {
    for (let i = 0; i < given; i += 1) {
      if (slot.entries.state[due[i]!] === WAITING) takeOrKeep(slot, batch, due[i]!, nowMs);
    }
    all += given;
    given = wheel.drainedToMs < wheel.timeMs ? wheel.advanceTo(wheel.timeMs, due) : 0;
  }
  return all;
}

/** The wheel has given the entry away, so one that finds no room goes among the ready. */
function takeOrKeep(slot: SlotState, batch: Batch, entry: number, nowMs: number): void {
  if (!batch.full) {
    take(slot, batch, entry, nowMs);
    return;
  }
  slot.entries.state[entry] = READY;
  slot.ready.push(entry);
}

/** The usual case, on the hot path: an entry that owes the one occurrence that is due, on time. Answers whether it was. */
function takePlain(slot: SlotState, batch: Batch, entry: number, nowMs: number): boolean {
  const { entries } = slot;
  const plan = entries.plan[entry]!;
  if (plan === null || isAway(slot, plan.topic, plan.head.partition)) return false;
  const effectiveMs = entries.effectiveMs[entry]!;
  if (effectiveMs > nowMs || effectiveMs < nowMs - slot.options.misfireAfterMs) return false;
  const nominalMs = entries.nominalMs[entry]!;
  const afterMs = plan.everyMs > 0 ? nominalMs + plan.everyMs : plan.schedule.next(nominalMs);
  const nextMs = afterMs === NO_OCCURRENCE ? Number.POSITIVE_INFINITY : afterMs + plan.offsetMs;
  if (nextMs <= nowMs && !mayFollow(slot, batch, effectiveMs, nextMs, nowMs)) return false;
  batch.addPlain(entry, plan, entries.shard[entry]!, entries.number[entry]!, nominalMs, effectiveMs, afterMs);
  entries.state[entry] = FLIGHT;
  return true;
}

/**
 * Whether an occurrence that is due already may wait for the acknowledgement of the one before. T stays before it meanwhile, and
 * an exactly-once batch must not reach beyond T: so neither has the wheel passed it, nor another job's times in the batch, nor do
 * they before the next batch.
 */
function mayFollow(slot: SlotState, batch: Batch, effectiveMs: number, nextMs: number, nowMs: number): boolean {
  return (
    nextMs > Math.max(slot.wheel.timeMs, batch.itemsLastMs) && nowMs - effectiveMs < PLAIN_OWED * (nextMs - effectiveMs)
  );
}

function take(slot: SlotState, batch: Batch, entry: number, nowMs: number): void {
  if (takePlain(slot, batch, entry, nowMs)) return;
  const live = slot.entries.live[entry]!;
  if (live.run !== null) {
    takeRun(slot, batch, entry, live);
    return;
  }
  const segment = live.segments[0]!;
  const effectiveMs = slot.entries.effectiveMs[entry]!;
  if (effectiveMs > nowMs) {
    place(slot, entry);
    return;
  }
  const plan = rulingPlan(live, segment, nowMs);
  if (plan === null) {
    supersede(slot, entry, segment, nowMs);
    return;
  }
  if (isAway(slot, plan.topic, plan.head.partition)) {
    waitForTopic(slot, entry, nowMs);
    return;
  }
  const missed = effectiveMs < nowMs - slot.options.misfireAfterMs;
  const reachMs = Math.min(nowMs, Math.max(effectiveMs, batch.plainNextMs - 1), horizonOf(slot, entry, nowMs));
  const upToMs = live.cursor === null ? reachMs : nowMs;
  if (missed) takeMissed(slot, batch, entry, live, segment, plan, nowMs, upToMs);
  else takeOwed(slot, batch, entry, live, segment, plan, nowMs, upToMs, slot.entries.nominalMs[entry]!, 0, 0);
}

/** T of a shard stands at its horizon: what lies beyond would be published again by a new owner. */
function horizonOf(slot: SlotState, entry: number, nowMs: number): number {
  if (slot.shards.reachMs >= nowMs) return nowMs;
  return Math.max(slot.entries.effectiveMs[entry]!, slot.shards.get(slot.entries.shard[entry]!)?.horizonMs ?? nowMs);
}

/**
 * By which version an occurrence of a segment is published. A former version publishes what is owed up to its cut, but not
 * later than the owner's answer may take (I7): then the version in force does it, or nobody, if it does not fire.
 */
function rulingPlan(live: Live, segment: Segment, nowMs: number): Plan | null {
  const former = segment.plan !== live.current;
  return former && nowMs > segment.untilMs + LIMITS.ownerAnswerWaitMs ? live.current : segment.plan;
}

/** What a version owed that has ended without a version that fires after it. */
function supersede(slot: SlotState, entry: number, segment: Segment, nowMs: number): void {
  const { schedule } = segment.plan;
  const upTo = Math.min(segment.untilMs, nowMs) - schedule.offsetMs;
  const n = schedule.count(slot.entries.nominalMs[entry]! - 1, upTo);
  tell(slot, entry, 'superseded', n);
  const live = slot.entries.live[entry]!;
  live.segments.shift();
  standFirst(slot, entry);
  settle(slot, entry);
  place(slot, entry);
}

/** Exceptions are told one by one, in words that name the job. */
function tell(slot: SlotState, entry: number, result: 'superseded' | 'dropped', n: number): void {
  if (n === 0) return;
  const { entries } = slot;
  slot.count('triggers_total', { result }, n);
  slot.event('warn', `triggers were ${result}`, {
    shard: entries.shard[entry],
    number: entries.number[entry],
    fromMs: entries.nominalMs[entry],
    n,
  });
}

export function waitForTopic(slot: SlotState, entry: number, nowMs: number): void {
  openCursor(slot, entry, 'topic-missing', nowMs);
  settle(slot, entry);
  place(slot, entry, nowMs + LIMITS.missingTopicRetryMs);
}

/** Occurrences older than the misfire limit go by the policy; younger ones that are due follow in order. */
function takeMissed(
  slot: SlotState,
  batch: Batch,
  entry: number,
  live: Live,
  segment: Segment,
  plan: Plan,
  nowMs: number,
  mayMs: number,
): void {
  const { schedule } = segment.plan;
  const nominalMs = slot.entries.nominalMs[entry]!;
  const upToMs = Math.min(mayMs, segment.untilMs) - schedule.offsetMs;
  const decided = misfire(plan.misfire, schedule, nominalMs - 1, upToMs, nowMs, slot.options.misfireAfterMs);
  const first = decided.fire === 0 ? NO_OCCURRENCE : nextIn(segment, decided.afterMs);
  if (first === NO_OCCURRENCE || first > upToMs) {
    missedWithoutFire(slot, entry, decided.dropped, positionAfter(live.segments, decided.upToMs));
    return;
  }
  if (plan.misfire.mode === 'all') openCursor(slot, entry, 'misfire', nowMs);
  takeOwed(slot, batch, entry, live, segment, plan, nowMs, mayMs, first, decided.late, decided.dropped);
}

function missedWithoutFire(slot: SlotState, entry: number, dropped: number, after: Position | null): void {
  if (dropped > 0) slot.count('misfires_total', { result: 'dropped' }, dropped);
  tell(slot, entry, 'dropped', dropped);
  stand(slot, entry, after);
  settle(slot, entry);
  place(slot, entry);
}

/** Everything of the segment that is owed from `first` up to `mayMs`, now or before, as far as there is room. */
function takeOwed(
  slot: SlotState,
  batch: Batch,
  entry: number,
  live: Live,
  segment: Segment,
  plan: Plan,
  nowMs: number,
  mayMs: number,
  first: number,
  late: number,
  dropped: number,
): void {
  const { entries } = slot;
  const [shard, number] = [entries.shard[entry]!, entries.number[entry]!];
  const { offsetMs } = segment.plan.schedule;
  const pace = paceOf(plan, late);
  let count = 0;
  let last = first;
  for (let at = first; at !== NO_OCCURRENCE && at + offsetMs <= mayMs; at = nextIn(segment, at)) {
    if (count >= pace.atOnce || (count > 0 && batch.full)) break;
    batch.add(plan, shard, number, at, at + offsetMs);
    if (at + offsetMs >= nowMs - slot.options.misfireAfterMs) batch.onTime(plan.cluster, at + offsetMs);
    last = at;
    count += 1;
  }
  const after = positionAfter(live.segments, last);
  const { topic, head } = plan;
  const lateHere = Math.min(late, count);
  const restMs = lateHere < late ? pace.restMs : 0;
  push(slot, batch, live, {
    entry,
    topic,
    partition: head.partition,
    count,
    behind: batch.plainCount,
    lastMs: last + offsetMs,
    after,
    late: lateHere,
    dropped,
    restMs,
  });
}

/** How many occurrences go at once, and the rest after them: a rate of misfires is kept in steps of at least 50 ms. */
function paceOf(plan: Plan, late: number): { atOnce: number; restMs: number } {
  const perSecond = plan.misfire.maxPerSecond;
  if (late === 0 || perSecond === undefined) return { atOnce: LIMITS.publishBatchOccurrences, restMs: 0 };
  const atOnce = Math.min(LIMITS.publishBatchOccurrences, Math.max(1, Math.floor(perSecond / 20)));
  return { atOnce, restMs: Math.ceil((atOnce * 1_000) / perSecond) };
}

function push(slot: SlotState, batch: Batch, live: Live, item: Item): void {
  const { entries } = slot;
  batch.items.push(item);
  entries.state[item.entry] = FLIGHT;
  if (live.cursor === null && live.run === null) {
    batch.oldestMs = Math.min(batch.oldestMs, entries.effectiveMs[item.entry]!);
    batch.itemsLastMs = Math.max(batch.itemsLastMs, item.lastMs);
  }
  const { after } = item;
  const segment = after?.segment ?? 0;
  const paysAll =
    (after !== null && cursorCovers(live, segment)) || hasPaid(slot, live, segment, after?.effectiveMs ?? null);
  if (live.hold !== null && paysAll) live.hold.paidBy = batch;
}

/** A run outside the schedule. It has no cursor to wait behind: where its topic is missing it is dropped, and told. */
function takeRun(slot: SlotState, batch: Batch, entry: number, live: Live): void {
  const { entries } = slot;
  const { target, requestKey } = live.run!;
  const nominalMs = entries.nominalMs[entry]!;
  if (isAway(slot, target.topic, target.head.partition)) {
    tell(slot, entry, 'dropped', 1);
    remove(slot, entry);
    return;
  }
  batch.addRun(target, entries.shard[entry]!, entries.number[entry]!, nominalMs, requestKey);
  batch.onTime(target.cluster, nominalMs);
  const { topic, head } = target;
  const item = { entry, topic, partition: head.partition, count: 1, behind: batch.plainCount, lastMs: nominalMs };
  push(slot, batch, live, { ...item, after: null, late: 0, dropped: 0, restMs: 0 });
}
