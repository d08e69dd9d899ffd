import { CarillonError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { CommitRefused, type SendFailure } from '../../ports/bus.ts';
import { acknowledge, acknowledgeSome, plainItem } from './advance.ts';
import { isAway, setAway } from './away.ts';
import type { Batch, Item } from './batch.ts';
import { waitForTopic } from './collect.ts';
import { READY } from './entries.ts';
import { applyDeferred } from './fast-path.ts';
import { failEntry } from './finish.ts';
import { place } from './movement.ts';
import { commit } from './progress.ts';
import type { SlotState } from './slot-state.ts';

/** How long a slot rests after a failure of the bus, in ms: doubled from the first to the second. */
const REST_MS = 50;
const REST_MAX_MS = 2_000;

/**
 * The transactions of a slot begin so far apart, in times of how long one takes, and in ms at most: a machine that is full gets
 * fewer and larger ones. (m, 10,000/s: with 1.5 times p99 25 ms instead of 13.)
 */
const PAUSE_PER_ANSWER = 1;
const PAUSE_MAX_MS = 100;

/**
 * Sends a batch; ends, without an error of the bus, when its outcome is known and every entry of it stands where it must.
 * - at-least-once: the idempotent producer; several batches are on the way, and progress follows the acknowledgement.
 * - exactly-once: triggers, cursors and progress are one transaction; there is one at a time, and what becomes due
 *   meanwhile goes with the next (group commit).
 */
export async function deliver(slot: SlotState, batch: Batch): Promise<void> {
  slot.batches.add(batch);
  const { clock } = slot.options;
  const begunMs = clock.monotonicMs();
  slot.begunMs = begunMs;
  const outcome = await send(slot, batch);
  slot.answerMs += (clock.monotonicMs() - begunMs - slot.answerMs) / 8;
  // T stays before the batch until all of it stands where it must.
  if (slot.running && 'error' in outcome) takeFailure(slot, batch, outcome.error);
  slot.batches.delete(batch);
  if (!slot.running) return;
  if (!('error' in outcome)) {
    slot.failuresInARow = 0;
    slot.moved = true;
    takeOutcome(slot, batch, outcome.failures);
  }
  batch.done();
}

type Outcome = { failures: readonly SendFailure[] } | { error: unknown };

async function send(slot: SlotState, batch: Batch): Promise<Outcome> {
  try {
    if (slot.options.delivery === 'at-least-once') {
      return { failures: await slot.options.producer.send(batch.triggers.toMessages()) };
    }
    await commit(slot, batch);
    return { failures: [] };
  } catch (error) {
    return { error };
  }
}

/** Whether there is room for another batch of what is due at `nowMs`. */
export function mayDeliver(slot: SlotState, nowMs: number): boolean {
  const { delivery, clock, budget } = slot.options;
  if (clock.monotonicMs() < slot.restUntilMs) return false;
  if (delivery === 'at-least-once') return slot.batches.size < LIMITS.publishBatchesInFlight;
  if (slot.batches.size > 0 || slot.committing !== null) return false;
  const pauseMs = Math.min(PAUSE_MAX_MS, PAUSE_PER_ANSWER * slot.answerMs);
  if (clock.monotonicMs() - slot.begunMs < pauseMs) return false;
  const waits = slot.ready.length > 0 || slot.wheel.nextDueMs() <= nowMs;
  // Where nothing waits the wheel moves on, and T with it; that begins no transaction.
  return !waits || (budget?.take(clock.monotonicMs()) ?? true);
}

function takeOutcome(slot: SlotState, batch: Batch, failures: readonly SendFailure[]): void {
  if (failures.length === 0) {
    acknowledge(slot, batch);
    return;
  }
  acknowledgeSome(slot, batch, leaveOut(slot, itemsOf(slot, batch), failures));
}

/** What was refused waits behind cursors, or its jobs fail; answers the rest. */
function leaveOut(slot: SlotState, items: readonly Item[], failures: readonly SendFailure[]): Item[] {
  const rest: Item[] = [];
  const failed = new Map(failures.map((failure) => [`${failure.topic}/${failure.partition}`, failure]));
  const written = new Map<string, number>();
  for (const item of items) {
    const key = `${item.topic}/${item.partition}`;
    const first = written.get(key) ?? 0;
    const after = first + item.count;
    written.set(key, after);
    const failure = failed.get(key);
    if (failure === undefined) {
      rest.push(item);
    } else if (failure.code !== 'record-too-large') {
      setAway(slot, item.topic, failure.code === 'topic-unknown' ? null : item.partition);
      again(slot, item);
    } else if (failure.places?.some((place) => place >= first && place < after)) {
      failEntry(slot, item.entry, 'a trigger is larger than its topic allows');
    } else {
      rest.push(item);
    }
  }
  return rest;
}

/** Items of all triggers of a batch, in the order in which they were written. */
function itemsOf(slot: SlotState, batch: Batch): Item[] {
  const all: Item[] = [];
  let plain = 0;
  for (const item of batch.items) {
    for (; plain < item.behind; plain += 1) all.push(plainItem(slot, batch, plain));
    all.push(item);
  }
  for (; plain < batch.plainCount; plain += 1) all.push(plainItem(slot, batch, plain));
  return all;
}

/** Nothing of the batch counts; where the bus says what cannot be written, the rest goes without it, at once. */
function takeFailure(slot: SlotState, batch: Batch, error: unknown): void {
  const items = itemsOf(slot, batch);
  const rest = error instanceof CommitRefused ? leaveOut(slot, items, error.failures) : items;
  if (rest.length < items.length) {
    slot.begunMs = Number.NEGATIVE_INFINITY;
  } else {
    slot.restUntilMs = slot.options.clock.monotonicMs() + restMs(slot.failuresInARow);
    slot.failuresInARow += 1;
    slot.count('publish_failures_total', { code: error instanceof CarillonError ? error.code : 'internal' });
    slot.event('error', 'a batch of triggers was not published', {
      error: String(error),
      triggers: batch.count,
    });
  }
  for (const item of rest) again(slot, item);
}

function restMs(failures: number): number {
  return Math.min(REST_MAX_MS, REST_MS * 2 ** Math.min(failures, 10));
}

/** The entry stands where it stood before the batch. */
function again(slot: SlotState, item: Item): void {
  const { entry, topic, partition } = item;
  const live = slot.entries.live[entry]!;
  if (live.hold !== null) live.hold.paidBy = null;
  slot.entries.state[entry] = READY;
  if (applyDeferred(slot, entry)) return;
  if (live.run === null && isAway(slot, topic, partition)) waitForTopic(slot, entry, slot.options.clock.wallMs());
  else if (live.run === null) place(slot, entry);
  else slot.ready.push(entry);
}
