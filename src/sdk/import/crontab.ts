import { basename } from 'node:path';
import type { JobForm } from '../../core/form/job-form.ts';
import { stableHash } from '../../core/schedule/stable-hash.ts';
import { type Import, Importer, keyPart, NOT_UTF8 } from './imported.ts';

export interface CrontabOptions {
  /** Name of the file; its last part stands in the job keys. Default `crontab`. */
  name?: string;
  /** The form of /etc/crontab and /etc/cron.d: a user stands between schedule and command. */
  system?: boolean;
  /** Zone of the lines that no CRON_TZ stands above. Absent means UTC. */
  zone?: string;
  /** Begins each job key. Default `crontab/`. */
  prefix?: string;
  /** Instant of the import, UTC ms; default now. */
  nowMs?: number;
}

/** What a trigger of an imported line tells whoever runs it. */
interface CrontabPayload {
  command: string;
  /** What stands behind the first `%`, with line breaks for the others (crontab(5)). */
  stdin?: string;
  user?: string;
  /** Variables set above the line: SHELL, PATH, MAILTO and all others but CRON_TZ. */
  env: Record<string, string>;
  source: { file: string; line: number };
}

const VARIABLE = /^\s*(?:"([^"]+)"|'([^']+)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*)$/;
const SCHEDULE = /^(@\S+|\S+\s+\S+\s+\S+\s+\S+\s+\S+)(?:\s+(.*))?$/;
const USER = /^(\S+)(?:\s+(.*))?$/;
const KEY_NAME_BYTES = 200;

/**
 * Reads a crontab (crontab(5) of Vixie cron and cronie): comments, variables (they hold for the lines below), five fields or
 * a macro, the user of the system form, the command with its `%`. CRON_TZ sets the zone of the lines below it; TZ is a
 * variable for the command, as there. `@reboot` is refused: an installation of many machines has no boot.
 *
 * A job's key is `PREFIX FILE/HASH`, the hash over user and command: it stays when lines move and when the schedule of a line
 * changes, so a second import changes the same jobs. The same command a second time has `-2` behind it.
 */
export function importCrontab(text: string, options: CrontabOptions = {}): Import {
  const { system = false, zone, prefix = 'crontab/', nowMs = Date.now() } = options;
  const importer = new Importer(nowMs);
  const name = keyPart(basename(options.name ?? 'crontab'), KEY_NAME_BYTES);
  const env: Record<string, string> = {};
  const uses = new Map<string, number>();
  let lineZone = zone;
  for (const [index, raw] of text
    .replace(/^\ufeff/, '')
    .split('\n')
    .entries()) {
    const line = index + 1;
    const content = raw.replace(/^[ \t]+/, '').replace(/\r$/, '');
    if (content.trim() === '' || content.startsWith('#')) continue;
    if (content.includes(NOT_UTF8.character)) {
      importer.refuse(line, content, NOT_UTF8.reason);
      continue;
    }
    const variable = readVariable(content);
    if (variable !== null) {
      if (variable.name === 'CRON_TZ') lineZone = variable.value === '' ? zone : variable.value;
      else define(env, variable.name, variable.value);
      continue;
    }
    const entry = readEntry(content, system);
    if ('reason' in entry) {
      importer.refuse(line, content, entry.reason, entry.field);
      continue;
    }
    const hash = stableHash(`${entry.user ?? ''}\n${entry.command}`)
      .toString(16)
      .padStart(8, '0');
    const use = (uses.get(hash) ?? 0) + 1;
    uses.set(hash, use);
    const payload: CrontabPayload = { ...withStdin(entry.command), env: { ...env }, source: { file: name, line } };
    if (entry.user !== undefined) payload.user = entry.user;
    const form: JobForm = {
      key: `${prefix}${name}/${hash}${use > 1 ? `-${use}` : ''}`,
      schedule: { kind: 'cron', expression: entry.expression, ...(lineZone !== undefined && { zone: lineZone }) },
      payload,
      labels: { source: 'crontab' },
    };
    importer.take(line, content, form);
  }
  return importer.result;
}

function readVariable(content: string): { name: string; value: string } | null {
  const match = VARIABLE.exec(content);
  if (match === null) return null;
  const [, double, single, plain, rest = ''] = match;
  const value = rest.trim();
  const quoted = /^(["'])(.*)\1$/.exec(value);
  return { name: double ?? single ?? plain!, value: quoted ? quoted[2]! : value };
}

/** `__proto__` is a name like any other. */
function define(env: Record<string, string>, name: string, value: string): void {
  Object.defineProperty(env, name, { value, enumerable: true, configurable: true, writable: true });
}

type Entry = { expression: string; user?: string; command: string };

function readEntry(content: string, system: boolean): Entry | { reason: string; field: string } {
  const [, expression, rest = ''] = SCHEDULE.exec(content) ?? [];
  if (expression === undefined) {
    return { field: 'schedule.expression', reason: 'a schedule has five fields, or is a macro such as @daily' };
  }
  if (/^@reboot$/i.test(expression)) {
    const reason = '@reboot: there is no boot here; run the command from the start of the service that needs it';
    return { field: 'schedule.expression', reason };
  }
  const [, user, command = ''] = system ? (USER.exec(rest) ?? []) : ['', undefined, rest];
  if (system && user === undefined) return { field: 'payload.user', reason: 'the user and the command are missing' };
  if (command.trim() === '') {
    const mend = system ? 'is this a user’s crontab? then leave out --system' : 'there is nothing to run';
    return { field: 'payload.command', reason: `the command is missing: ${mend}` };
  }
  return { expression: expression.replace(/\s+/g, ' '), command, ...(user !== undefined && { user }) };
}

/** `mail -s hi root%Dear root,%bye` -> the command, and the standard input `Dear root,\nbye`; `\%` is a plain `%`. */
function withStdin(text: string): { command: string; stdin?: string } {
  const parts: string[] = [''];
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (character === '\\' && text[at + 1] === '%') {
      parts[parts.length - 1] += '%';
      at += 1;
    } else if (character === '%') parts.push('');
    else parts[parts.length - 1] += character;
  }
  const [command, ...input] = parts as [string, ...string[]];
  return { command: command.trimEnd(), ...(input.length > 0 && { stdin: input.join('\n') }) };
}
