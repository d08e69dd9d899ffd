import { LIMITS } from './limits.ts';

/**
 * A ZSET member is one plain number: 36 bits of job number, 16 low bits of the version.
 * Example: number 5, version 65,537 -> 5 * 65,536 + 1 = 327,681; the full version stands in the job record.
 * Job numbers are unique within their shard and never reused there.
 */
const VERSIONS = 2 ** LIMITS.memberVersionBits;
const NUMBERS = 2 ** LIMITS.jobNumberBits;

export function packMember(number: number, version: number): number {
  if (!Number.isInteger(number) || number < 0 || number >= NUMBERS) throw new RangeError(`job number ${number}`);
  return number * VERSIONS + (version % VERSIONS);
}

export function memberNumber(member: number): number {
  return Math.floor(member / VERSIONS);
}

export function memberVersion(member: number): number {
  return member % VERSIONS;
}
