import type { Delivery } from './job.ts';

/** Names of the topics that the engine itself uses; triggers go to the topic of their logical cluster. */
export const TOPICS = {
  changes: 'carillon.changes',
  answers: 'carillon.answers',
  fast: 'carillon.fast',
  progress: 'carillon.progress',
  cursors: 'carillon.cursors',
} as const;

export const APPLIER_GROUP = 'carillon.appliers';

export function triggerTopic(cluster: string): string {
  return `carillon.triggers.${cluster}`;
}

/**
 * Fast path, progress and cursors have one partition per slot of both sets, first the at-least-once set.
 * Example with 8 slots per set: slot 3 of exactly-once -> 8 + 3 = 11.
 */
export function slotPartition(delivery: Delivery, slot: number, slotsPerSet: number): number {
  return delivery === 'exactly-once' ? slotsPerSet + slot : slot;
}

/** Name of a slot in transactional ids, metrics and reports: `a3`, `e0`. */
export function slotName(delivery: Delivery, slot: number): string {
  return `${delivery === 'exactly-once' ? 'e' : 'a'}${slot}`;
}

/** Transactional id of a lane of a slot; known to everybody without asking. */
export function laneId(installation: string, delivery: Delivery, slot: number, lane: number): string {
  return `${installation}/${slotName(delivery, slot)}/${lane}`;
}

/** Transactional id of the applier of one changes partition. */
export function applierLaneId(installation: string, partition: number): string {
  return `${installation}/changes/${partition}`;
}
