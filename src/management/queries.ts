import type { JobState } from '../core/job.ts';
import { LIMITS } from '../core/limits.ts';

/** A parameter of a query string: any text, a whole number, or one of some words. */
export type QueryKind = 'text' | { min: number; max: number } | readonly string[];
export type QuerySpec = Readonly<Record<string, QueryKind>>;

const STATES = ['enabled', 'paused', 'finished', 'terminated', 'error'] as const satisfies readonly JobState[];
const limit = { min: 1, max: LIMITS.pageItems } as const;

/** The parameters of the routes that have any: what is read and what is documented. */
export const JOB_LIST_QUERY = { limit, cursor: 'text', prefix: 'text', state: STATES } as const satisfies QuerySpec;
export const OPERATIONS_QUERY = { limit } as const satisfies QuerySpec;
export const TRIGGERS_QUERY = { group: 'text', from: ['first', 'end'] } as const satisfies QuerySpec;
