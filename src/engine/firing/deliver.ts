import { CarillonError, isCode } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { SendFailure } from '../../ports/bus.ts';
import { acknowledge, acknowledgeSome, plainItem } from './advance.ts';
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
 * fewer and larger ones.
 */
const PAUSE_PER_ANSWER = 1.5;
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
  // A look for a missing topic takes a request: T stays before the batch until all of it stands where it must.
  if (slot.running && 'error' in outcome) await takeFailure(slot, batch, outcome.error);
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
  const waits = slot.ready.length > 0 || slot.apart.length > 0 || slot.wheel.nextDueMs() <= nowMs;
  // Where nothing waits the wheel moves on, and T with it; that begins no transaction.
  return !waits || (budget?.take(clock.monotonicMs()) ?? true);
}

function takeOutcome(slot: SlotState, batch: Batch, failures: readonly SendFailure[]): void {
  if (failures.length === 0) {
    acknowledge(slot, batch);
    return;
  }
  const good: Item[] = [];
  const failed = new Map(failures.map((failure) => [`${failure.topic}/${failure.partition}`, failure]));
  const written = new Map<string, number>();
  for (const item of itemsOf(slot, batch)) {
    const key = `${item.topic}/${item.partition}`;
    const first = written.get(key) ?? 0;
    const after = first + item.count;
    written.set(key, after);
    const failure = failed.get(key);
    if (failure?.code === 'topic-unknown') {
      topicIsMissing(slot, item.topic);
      again(slot, item);
    } else if (failure?.places?.some((place) => place >= first && place < after)) {
      failEntry(slot, item.entry, 'a trigger is larger than its topic allows');
    } else {
      good.push(item);
    }
  }
  acknowledgeSome(slot, batch, good);
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

/** Nothing of the batch counts; where the bus says what cannot be written, that is parted from the rest. */
async function takeFailure(slot: SlotState, batch: Batch, error: unknown): Promise<void> {
  const items = itemsOf(slot, batch);
  if (isCode(error, 'topic-unknown')) {
    for (const topic of new Set(items.map((item) => item.topic))) await lookFor(slot, topic);
    if (slot.running) for (const item of items) again(slot, item);
  } else if (isCode(error, 'record-too-large')) {
    part(slot, items);
  } else {
    slot.restUntilMs = slot.options.clock.monotonicMs() + restMs(slot.failuresInARow);
    slot.failuresInARow += 1;
    slot.count('publish_failures_total', { code: error instanceof CarillonError ? error.code : 'internal' });
    slot.event('error', 'a batch of triggers was not published', {
      error: String(error),
      triggers: batch.count,
    });
    for (const item of items) again(slot, item);
  }
}

function restMs(failures: number): number {
  return Math.min(REST_MAX_MS, REST_MS * 2 ** Math.min(failures, 10));
}

/** The entry stands where it stood before the batch. */
function again(slot: SlotState, item: Item): void {
  const { entry, topic } = item;
  const live = slot.entries.live[entry]!;
  if (live.hold !== null) live.hold.paidBy = null;
  slot.entries.state[entry] = READY;
  if (applyDeferred(slot, entry)) return;
  if (live.run === null && slot.missingTopics.has(topic)) waitForTopic(slot, entry, slot.options.clock.wallMs());
  else if (live.run === null) place(slot, entry);
  else slot.ready.push(entry);
}

/** Halves go by themselves until one record is alone. */
function part(slot: SlotState, items: readonly Item[]): void {
  if (items.length === 1) {
    failEntry(slot, items[0]!.entry, 'a trigger is larger than its topic allows');
    return;
  }
  const entries = items.map((item) => item.entry);
  for (const entry of entries) slot.entries.state[entry] = READY;
  const half = Math.ceil(entries.length / 2);
  slot.apart.push(entries.slice(0, half), entries.slice(half));
}

function topicIsMissing(slot: SlotState, topic: string): void {
  if (slot.missingTopics.has(topic)) return;
  slot.missingTopics.add(topic);
  slot.count('topics_missing_total', { topic });
  slot.event('error', 'a topic does not exist: its triggers wait behind cursors until it does', { topic });
}

async function lookFor(slot: SlotState, topic: string): Promise<void> {
  try {
    await slot.options.stores.bus.partitions(topic);
    if (slot.missingTopics.delete(topic)) slot.event('info', 'a missing topic is there', { topic });
  } catch (error) {
    if (isCode(error, 'topic-unknown')) topicIsMissing(slot, topic);
  }
}

/** Looks whether missing topics are there by now. */
export async function checkTopics(slot: SlotState): Promise<void> {
  for (const topic of [...slot.missingTopics]) await lookFor(slot, topic);
}
