import { carillonError } from '../core/errors.ts';
import { checkKey } from '../core/form/read.ts';

/** What a list was asked for; a cursor belongs to it. */
export interface ListFilter {
  cluster: string;
  prefix?: string;
  state?: string;
}

/** A paging cursor: opaque to users, it names the last key of a page and the list that the page is of. */
export function encodeCursor(afterKey: string, filter: ListFilter): string {
  return Buffer.from(JSON.stringify([1, afterKey, ...filterParts(filter)])).toString('base64url');
}

/** The last key of the page before. @throws CarillonError `cursor-invalid` */
export function decodeCursor(cursor: string, filter: ListFilter): string {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (Array.isArray(parts) && typeof parts[1] === 'string') {
      checkKey(parts[1]);
      // Written again it must be the same text: so nothing else was in it, and it belongs to this list.
      if (encodeCursor(parts[1], filter) === cursor) return parts[1];
    }
  } catch {
    // Refused below.
  }
  throw carillonError('cursor-invalid', 'use the "next" of a page of this very list (same cluster, prefix, state)', {
    field: 'cursor',
    token: cursor.slice(0, 40),
  });
}

function filterParts({ cluster, prefix = '', state = '' }: ListFilter): string[] {
  return [cluster, prefix, state];
}
