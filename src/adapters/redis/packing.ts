import { packMember } from '../../core/member.ts';
import type { ExpectedJob } from '../../ports/rebuild-store.ts';
import type { MemberScore, TriggerChange } from '../../ports/trigger-store.ts';

/**
 * Arguments of the scripts as one string of bytes each: one argument costs the client and Redis less than thousands, and
 * binary records need no escaping. Numbers are big-endian doubles, which hold every integer below 2^53 exactly.
 */
const NO_MEMBER = -1;
const DELETED = 0xffffffff;
const CHANGE_HEAD = 8 + 8 + 8 + 8 + 4;

/** Bounds of one call of `add`: Redis runs nothing else meanwhile. */
const PIECE_CHANGES = 1_000;
const PIECE_BYTES = 4 * 1024 * 1024;

/** Cuts changes into pieces that one call may take, in order. A piece has no number twice. */
export function* changePieces(changes: readonly TriggerChange[]): Generator<readonly TriggerChange[]> {
  const numbers = new Set<number>();
  let start = 0;
  let bytes = 0;
  for (const [i, { number, record }] of changes.entries()) {
    const size = CHANGE_HEAD + (record?.length ?? 0);
    if (i > start && (numbers.size === PIECE_CHANGES || bytes + size > PIECE_BYTES || numbers.has(number))) {
      yield changes.slice(start, i);
      numbers.clear();
      start = i;
      bytes = 0;
    }
    numbers.add(number);
    bytes += size;
  }
  if (start < changes.length) yield changes.slice(start);
}

/** Format `>ddddI4` and the record, for each change (see `scripts/add.lua`). */
export function packChanges(changes: readonly TriggerChange[]): Buffer {
  const size = changes.reduce((sum, { record }) => sum + CHANGE_HEAD + (record?.length ?? 0), 0);
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const { number, version, score, cutMs = 0, record } of changes) {
    assertVersioned(number, version);
    at = bytes.writeDoubleBE(number, at);
    at = bytes.writeDoubleBE(version, at);
    at = bytes.writeDoubleBE(score === null ? NO_MEMBER : checkedScore(score), at);
    at = bytes.writeDoubleBE(cutMs, at);
    at = bytes.writeUInt32BE(record === null ? DELETED : record.length, at);
    if (record !== null) {
      bytes.set(record, at);
      at += record.length;
    }
  }
  return bytes;
}

/** Format `>ddd` for each score (see `scripts/write-back.lua`). */
export function packScores(scores: readonly MemberScore[]): Buffer {
  return packThree(scores, ({ score }) => checkedScore(score));
}

/** Format `>ddd` for each job (see `scripts/compare.lua`). */
export function packExpected(jobs: readonly ExpectedJob[]): Buffer {
  return packThree(jobs, ({ member }) => (member ? 1 : 0));
}

/** Number, version and a third number of each. */
function packThree<M extends { number: number; version: number }>(
  all: readonly M[],
  third: (one: M) => number,
): Buffer {
  const bytes = Buffer.allocUnsafe(all.length * 24);
  let at = 0;
  for (const one of all) {
    assertVersioned(one.number, one.version);
    at = bytes.writeDoubleBE(one.number, at);
    at = bytes.writeDoubleBE(one.version, at);
    at = bytes.writeDoubleBE(third(one), at);
  }
  return bytes;
}

/** Format `>dd` for each member (see `scripts/remove-finished.lua`). */
export function packMembers(members: readonly { number: number; version: number }[]): Buffer {
  const bytes = Buffer.allocUnsafe(members.length * 16);
  let at = 0;
  for (const { number, version } of members) {
    assertVersioned(number, version);
    at = bytes.writeDoubleBE(number, at);
    at = bytes.writeDoubleBE(version, at);
  }
  return bytes;
}

/** @throws RangeError for a number or version that a member or the kept answer (2 * version + 1) cannot hold exactly */
function assertVersioned(number: number, version: number): void {
  packMember(number, version);
  if (!Number.isSafeInteger(2 * version + 1) || version < 0) throw new RangeError(`version ${version}`);
}

function checkedScore(score: number): number {
  if (!Number.isSafeInteger(score) || score < 0) throw new RangeError(`score ${score}`);
  return score;
}
