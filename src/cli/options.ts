import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { carillonError } from '../core/errors.ts';
import { CarillonClient } from '../sdk/client.ts';

/** Options of every command that asks an installation. */
export const CONNECTION = {
  url: { type: 'string' },
  'api-key': { type: 'string' },
  cluster: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

export const CONNECTION_USAGE = `
  --url URL       address of the API (default CARILLON_URL, else http://127.0.0.1:7171)
  --api-key KEY   key of the API (default CARILLON_API_KEY)
  --cluster NAME  logical cluster (default: default)
  --json          print JSON
`;

interface ConnectionValues {
  url?: string | undefined;
  'api-key'?: string | undefined;
  cluster?: string | undefined;
}

/** Where the API is and how it is asked, of options and environment. */
export function connectionOf({ url, 'api-key': key, cluster }: ConnectionValues) {
  const { CARILLON_URL, CARILLON_API_KEY } = process.env;
  const apiKey = key ?? CARILLON_API_KEY;
  const address = url ?? CARILLON_URL ?? 'http://127.0.0.1:7171';
  if (!URL.canParse(address)) {
    throw carillonError('request-invalid', `${address} is no URL, such as http://127.0.0.1:7171`, { field: '--url' });
  }
  return { url: address, cluster: cluster ?? 'default', ...(apiKey !== undefined && { apiKey }) };
}

export function clientOf(values: ConnectionValues): CarillonClient {
  return new CarillonClient(connectionOf(values));
}

/** The help was asked for: its text is printed, and the command is done. */
export class HelpAsked extends Error {}

/** A command line that is not understood; told with the usage of its command. */
export class UsageError extends Error {
  readonly usage: string;
  constructor(message: string, usage: string) {
    super(message);
    this.usage = usage;
  }
}

/**
 * Reads the arguments of a command: options as told, and exactly the words that `words` names.
 * @throws HelpAsked, UsageError
 */
export function readArguments<const O extends ParseArgsOptionsConfig>(
  args: string[],
  options: O,
  words: readonly string[],
  usage: string,
) {
  try {
    const { values, positionals } = parseArgs({ args, options, strict: true, allowPositionals: true });
    if ((values as { help?: boolean }).help) throw new HelpAsked(usage);
    if (positionals.length < words.length) {
      throw new UsageError(`${words.slice(positionals.length).join(' and ')} is missing`, usage);
    }
    if (positionals.length > words.length) {
      throw new UsageError(`"${positionals[words.length]}" is one word too many`, usage);
    }
    return { values, words: positionals };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    throw code.startsWith('ERR_PARSE_ARGS') ? new UsageError((error as Error).message, usage) : error;
  }
}

/** A command takes the arguments behind its name and answers the exit code: 0 done, 1 failed, 2 wrong usage or input. */
export type Command = (args: string[]) => number | Promise<number>;

/** A command whose first word chooses what is done. */
export function subcommands(usage: string, table: Readonly<Record<string, Command>>): Command {
  return ([name, ...args]) => {
    if (name === '--help' || name === 'help') throw new HelpAsked(usage);
    if (name === undefined) throw new UsageError(`one of ${Object.keys(table).join(', ')} is missing`, usage);
    const command = Object.hasOwn(table, name) ? table[name] : undefined;
    if (command === undefined) throw new UsageError(`there is no "${name}"`, usage);
    return command(args);
  };
}

/** A whole number as it was written. */
export function wholeOf(text: string, option: string, min: number, max: number): number {
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw carillonError('request-invalid', `${option} must be a whole number from ${min} to ${max}`, { field: option });
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A length of time: whole ms, or a number with `ms`, `s`, `m`, `h` or `d` behind it. */
export function durationOf(text: string, option: string): number {
  const [, count, unit = 'ms'] = /^([0-9]{1,16})(ms|s|m|h|d)?$/.exec(text) ?? [];
  const ms = Number(count) * UNIT_MS[unit]!;
  if (Number.isSafeInteger(ms)) return ms;
  throw carillonError('request-invalid', `${option} must be ms, or a number with ms, s, m, h or d: "${text}"`, {
    field: option,
  });
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** Rows under a head, each column as wide as its widest cell. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]!.length)));
  for (const row of [head, ...rows]) {
    print(
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    );
  }
}

/** Text for a terminal: control characters, which could move the cursor or hide what stands there, become visible. */
export function visible(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
