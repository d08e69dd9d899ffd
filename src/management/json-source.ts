import { carillonError } from '../core/errors.ts';
import { LIMITS } from '../core/limits.ts';

/**
 * A strict reader of JSON (RFC 8259) that keeps the source text of one member. `JSON.parse` cannot do what is needed here: it
 * takes the last of two members with the same name silently, gives no path, and throws the text of the payload away, which
 * must reach the trigger byte for byte. Libraries with source positions build a tree with a node per value, which is too
 * slow for bulk lines.
 *
 * - The member `payload` of the outermost objects (of the body itself, or of each item of an array) is answered as the text
 *   of its value, checked for its grammar and depth only: what is escaped in it stays escaped.
 * - Elsewhere a member name that comes twice, a NUL and half of a surrogate pair are refused, with the path.
 * - `__proto__` is a name like any other.
 */
export function readJson(text: string): unknown {
  return new Reader(text).whole();
}

/** Decodes UTF-8; bytes that are none (another encoding, a cut character) are refused. */
export function utf8Text(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw carillonError('request-malformed', 'the body is not UTF-8', { field: 'body' });
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const RAW_MEMBER = 'payload';

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

class Reader {
  readonly #text: string;
  #at = 0;
  /** Names and indexes from the root to where the reader stands. */
  readonly #path: (string | number)[] = [];
  #objects = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): unknown {
    this.#blanks();
    const value = this.#value();
    this.#blanks();
    if (this.#at < this.#text.length) this.#refuse('there is more text after the end of the JSON value');
    return value;
  }

  #value(): unknown {
    const code = this.#text.charCodeAt(this.#at);
    switch (code) {
      case OPEN_OBJECT:
        return this.#object();
      case OPEN_LIST:
        return this.#list();
      case QUOTE:
        return this.#string();
      case 116:
        return this.#word('true', true);
      case 102:
        return this.#word('false', false);
      case 110:
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #object(): unknown {
    this.#enter();
    this.#objects += 1;
    const result: Record<string, unknown> = {};
    if (!this.#empty(CLOSE_OBJECT)) {
      for (;;) {
        this.#member(result);
        if (this.#ends(CLOSE_OBJECT)) break;
        this.#blanks();
      }
    }
    this.#objects -= 1;
    return result;
  }

  #member(result: Record<string, unknown>): void {
    if (this.#text.charCodeAt(this.#at) !== QUOTE) this.#refuse('a member name in double quotes is expected');
    const start = this.#at;
    const name = this.#string();
    this.#path.push(name);
    if (Object.hasOwn(result, name)) this.#refuse('the same member stands here a second time', start);
    this.#blanks();
    if (this.#text.charCodeAt(this.#at) !== COLON) this.#refuse('a colon is expected');
    this.#at += 1;
    this.#blanks();
    const value = this.#objects === 1 && name === RAW_MEMBER ? this.#source() : this.#value();
    if (name === '__proto__') {
      Object.defineProperty(result, name, { value, enumerable: true, configurable: true, writable: true });
    } else result[name] = value;
    this.#path.pop();
  }

  #list(): unknown {
    this.#enter();
    const result: unknown[] = [];
    if (this.#empty(CLOSE_LIST)) return result;
    for (;;) {
      this.#path.push(result.length);
      result.push(this.#value());
      this.#path.pop();
      if (this.#ends(CLOSE_LIST)) return result;
      this.#blanks();
    }
  }

  #enter(): void {
    this.#depth += 1;
    if (this.#depth > LIMITS.jsonDepth) this.#refuse(`arrays and objects are nested deeper than ${LIMITS.jsonDepth}`);
    this.#at += 1;
  }

  /** After the opening: whether the end stands here already. */
  #empty(close: number): boolean {
    this.#blanks();
    if (this.#text.charCodeAt(this.#at) !== close) return false;
    this.#at += 1;
    this.#depth -= 1;
    return true;
  }

  /** After a member or item: whether the end stands here (true) or a comma (false). */
  #ends(close: number): boolean {
    this.#blanks();
    const code = this.#text.charCodeAt(this.#at);
    if (code !== close && code !== COMMA) this.#refuse(`a comma or "${String.fromCharCode(close)}" is expected`);
    this.#at += 1;
    if (code === COMMA) return false;
    this.#depth -= 1;
    return true;
  }

  #string(): string {
    const start = this.#at;
    const escaped = this.#skipString();
    if (!escaped) return this.#text.slice(start + 1, this.#at - 1);
    const value: string = JSON.parse(this.#text.slice(start, this.#at));
    if (value.includes('\0')) this.#refuse('a text holds NUL (\\u0000)', start);
    if (!value.isWellFormed()) this.#refuse('a text holds half of a surrogate pair', start);
    return value;
  }

  /** Moves behind a string and answers whether it has escapes. */
  #skipString(): boolean {
    let escaped = false;
    let at = this.#at + 1;
    for (;;) {
      const code = this.#text.charCodeAt(at);
      if (code === QUOTE) break;
      if (code === BACKSLASH) {
        escaped = true;
        ESCAPE.lastIndex = at;
        if (!ESCAPE.test(this.#text)) this.#refuse('an escape is not valid', at);
        at = ESCAPE.lastIndex;
      } else if (code >= 32) at += 1;
      else if (Number.isNaN(code)) this.#refuse('the text ends inside a string', at);
      else this.#refuse('a control character stands in a string', at);
    }
    this.#at = at + 1;
    return escaped;
  }

  /** Text of a value. */
  #source(): string {
    const start = this.#at;
    this.#skip();
    return this.#text.slice(start, this.#at);
  }

  /** Moves behind a value and checks nothing but its grammar and depth. */
  #skip(): void {
    const code = this.#text.charCodeAt(this.#at);
    if (code === QUOTE) {
      this.#skipString();
      return;
    }
    if (code !== OPEN_OBJECT && code !== OPEN_LIST) {
      this.#value();
      return;
    }
    const close = code === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_LIST;
    this.#enter();
    if (this.#empty(close)) return;
    for (;;) {
      if (code === OPEN_OBJECT) this.#skipName();
      this.#skip();
      if (this.#ends(close)) return;
      this.#blanks();
    }
  }

  #skipName(): void {
    if (this.#text.charCodeAt(this.#at) !== QUOTE) this.#refuse('a member name in double quotes is expected');
    this.#skipString();
    this.#blanks();
    if (this.#text.charCodeAt(this.#at) !== COLON) this.#refuse('a colon is expected');
    this.#at += 1;
    this.#blanks();
  }

  #number(): number {
    NUMBER.lastIndex = this.#at;
    if (!NUMBER.test(this.#text))
      this.#refuse(this.#at < this.#text.length ? 'a value is expected' : 'the text ends here');
    const value = Number(this.#text.slice(this.#at, NUMBER.lastIndex));
    if (!Number.isFinite(value)) this.#refuse('the number is too large');
    this.#at = NUMBER.lastIndex;
    return value;
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) this.#refuse('a value is expected');
    this.#at += word.length;
    return value;
  }

  #blanks(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
      this.#at += 1;
    }
  }

  #refuse(reason: string, at = this.#at): never {
    const before = this.#text.slice(0, at);
    const line = before.split('\n').length;
    const column = at - before.lastIndexOf('\n');
    const token = this.#text.slice(at, at + 20).toWellFormed();
    throw carillonError('request-malformed', `JSON: ${reason}, at character ${at} (line ${line}, column ${column})`, {
      field: pathText(this.#path),
      ...(token === '' ? {} : { token }),
    });
  }
}

/** `['jobs', 3, 'schedule']` -> `jobs[3].schedule`; the root is `body`. */
export function pathText(path: readonly (string | number)[]): string {
  if (path.length === 0) return 'body';
  const text = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
  return (text.startsWith('.') ? text.slice(1) : text).toWellFormed().replaceAll('\0', '\\u0000').slice(0, 200);
}
