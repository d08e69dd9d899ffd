import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** One `.lua` file of `scripts/`: one change of state as one atomic step, with a header that says what it takes. */
export interface Script {
  name: string;
  source: string;
  sha: string;
  /** Number of keys and of arguments by the header, which are those that the source uses. */
  keys: number;
  arguments: number;
}

export function loadScript(name: string): Script {
  return parseScript(name, readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8'));
}

/**
 * Reads a script with its header: `#!lua`, its name, why it is, `keys:` and `arguments:` with a numbered line each, and its
 * answer. @throws where a section is missing or the header names other keys or arguments than the source uses
 */
export function parseScript(name: string, source: string): Script {
  const lines = source.split('\n');
  const end = lines.findIndex((line, i) => i > 0 && !line.startsWith('--'));
  const header = lines.slice(0, end);
  const body = lines.slice(end).join('\n');
  if (!header[0]?.startsWith('#!lua') || header[1] !== `-- ${name}`) {
    throw new Error(`${name}.lua: it must begin with #!lua and its name`);
  }
  for (const section of ['why', 'keys', 'arguments', 'answer']) {
    if (!header.some((line) => line.startsWith(`-- ${section}:`))) throw new Error(`${name}.lua: no "${section}:"`);
  }
  return {
    name,
    source,
    sha: createHash('sha1').update(source).digest('hex'),
    keys: counted(name, 'keys', header, body, /KEYS\[(\d+)\]/g),
    arguments: counted(name, 'arguments', header, body, /ARGV\[(\d+)\]/g),
  };
}

/** How many numbered lines a section has; they run from 1 without a gap and are exactly those that the body uses. */
function counted(name: string, section: string, header: readonly string[], body: string, use: RegExp): number {
  const start = header.findIndex((line) => line.startsWith(`-- ${section}:`));
  const next = header.findIndex((line, i) => i > start && /^-- [a-z]+:/.test(line));
  const numbers = header.slice(start, next).flatMap((line) => /^-- {3}(\d+) /.exec(line)?.[1] ?? []);
  const used = [...new Set([...body.matchAll(use)].map((match) => Number(match[1])))].sort((a, b) => a - b);
  const named = numbers.map(Number);
  if (named.join() !== used.join() || named.some((n, i) => n !== i + 1)) {
    throw new Error(`${name}.lua: the header names ${section} [${named}], the source uses [${used}]`);
  }
  return named.length;
}
