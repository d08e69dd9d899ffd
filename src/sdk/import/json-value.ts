import { LIMITS } from '../../core/limits.ts';

/** A part of a manifest that cannot be taken, by its path. */
export class Fault extends Error {
  readonly field: string;
  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/** More values than any payload has room for: a few aliases can name one large part many times. */
const VALUES_MOST = LIMITS.payloadBytes / 2;
const PATH_CHARS = 120;

/**
 * A YAML value (whole numbers as bigint) as JSON has it. What JSON cannot hold as it was written is refused, not changed.
 *
 * @throws Fault for whole numbers beyond 2^53, infinities, NaN, bytes, depth without end, and too many values
 */
export function jsonValue(value: unknown): unknown {
  return new Reader().read(value, '', 0);
}

class Reader {
  #values = 0;

  read(value: unknown, path: string, depth: number): unknown {
    this.#values += 1;
    if (this.#values > VALUES_MOST) throw faultAt(path, `stands behind ${VALUES_MOST} others: there are too many`);
    if (typeof value === 'bigint') {
      if (Number.isSafeInteger(Number(value))) return Number(value);
      throw faultAt(path, 'is a number that JSON readers would round; quote it');
    }
    if (typeof value === 'number' && !Number.isFinite(value))
      throw faultAt(path, 'is a number that JSON does not have');
    if (typeof value !== 'object' || value === null) return value;
    if (depth >= LIMITS.jsonDepth) throw faultAt(path, `is nested deeper than ${LIMITS.jsonDepth}, or in itself`);
    if (Array.isArray(value)) return value.map((item, index) => this.read(item, `${path}[${index}]`, depth + 1));
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null)
      throw faultAt(path, 'is of a kind that JSON does not have');
    const result = {};
    for (const [name, member] of Object.entries(value)) {
      const read = this.read(member, path === '' ? name : `${path}.${name}`, depth + 1);
      // `__proto__` is a name like any other.
      Object.defineProperty(result, name, { value: read, enumerable: true, configurable: true, writable: true });
    }
    return result;
  }
}

function faultAt(path: string, message: string): Fault {
  return new Fault(path.slice(0, PATH_CHARS).toWellFormed(), message);
}
