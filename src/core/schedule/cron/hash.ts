import { stableHash } from '../stable-hash.ts';
import { eachItem, type FieldKind, fieldError, rangeOf, stepOf, stepped, wrapped } from './field.ts';

/** `H` takes its step only as a bound of the choice, so that one longer than the field is no mistake (`H/40` in the day). */
const HASH_STEP_MAX = 9999;

/**
 * Writes each `H` of a field as the values that the job's key chooses: `H` and `H(a-b)` one value, `H/n` and `H(a-b)/n` in
 * the meaning that Jenkins gives them: the first value is chosen in the first n of the range, then every n-th follows up to
 * its end. So `H/7` in the minute fires 8 or 9 times an hour with gaps of 7. Where n is longer than the range, one value is
 * chosen. The same key gives the same values everywhere and for ever; the fields of one expression choose independently.
 *
 * Example: `H(0-29)/10` with a key that chooses 4 is `4,14,24`.
 *
 * @param seed the job's key
 * @throws CarillonError `schedule-invalid`
 */
export function chooseHashed(kind: FieldKind, text: string, seed: string | undefined): string {
  if (!/(?:^|,)h/i.test(text)) return text;
  const items: string[] = [];
  eachItem(kind, text, (item) => {
    items.push(/^h/i.test(item) ? hashedValues(kind, item, seed).join(',') : item);
  });
  return items.join(',');
}

function hashedValues(kind: FieldKind, item: string, seed: string | undefined): number[] {
  const match = /^h(?:\(([^)]*)\))?(?:\/(.*))?$/i.exec(item);
  if (!match) throw fieldError(kind, item, 'cannot be read; use H, H/n, H(a-b) or H(a-b)/n');
  if (kind.hashMax === 0) throw fieldError(kind, item, 'is not possible here: H is not for years');
  if (!seed) throw fieldError(kind, item, 'needs the key of a job, which H is chosen by (preview: --key)');
  let first: number = kind.min;
  let last: number = kind.hashMax;
  if (match[1] !== undefined) {
    const [from, to] = rangeOf(kind, item, match[1]);
    if (to === undefined) throw fieldError(kind, item, 'cannot be read; use H(a-b)');
    first = from;
    last = to;
  }
  const size = last - first + 1;
  const step = match[2] === undefined ? size : stepOf(kind, item, match[2], HASH_STEP_MAX);
  const hash = stableHash(`${kind.name} ${seed}`);
  if (match[2] === undefined || step >= size) return wrapped(kind, [first + (hash % size)]);
  return wrapped(kind, stepped(first + (hash % step), last, step));
}
