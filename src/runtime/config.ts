import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { type CarillonError, carillonError } from '../core/errors.ts';
import {
  type Config,
  environmentName,
  flagName,
  SETTING_NAMES,
  type Setting,
  type SettingName,
  setting,
} from './settings.ts';

export type { Config } from './settings.ts';

const CONFIG_FILE = 'carillon.config.json';
/** The file itself is named by `--config` or this variable; one that is named must exist. */
const CONFIG_FILE_VARIABLE = 'CARILLON_CONFIG';
/** Variables of the test suite, no settings. */
const TEST_PREFIX = 'CARILLON_TEST_';
const API_KEY_CHARACTERS = 16;

export interface ConfigSources {
  /** Flags, without the program and the command. */
  flags: readonly string[];
  environment: Readonly<Record<string, string | undefined>>;
}

/**
 * Reads the settings from file, environment and flags, later ones winning. Throws `setup-refused` that names the setting,
 * where it was given, and the mend.
 */
export function loadConfig(sources: ConfigSources): Config {
  const flags = readFlags(sources.flags);
  const named = flags.file ?? sources.environment[CONFIG_FILE_VARIABLE];
  const given = { ...readFile(named), ...readEnvironment(sources.environment), ...flags.values };
  const values = SETTING_NAMES.map((name) => {
    const one = given[name];
    return [name, one === undefined ? setting(name).default : parse(name, one)];
  });
  const config = Object.fromEntries(values) as Config;
  checkTogether(config);
  return config;
}

/** The settings as they may be printed: secrets only as given or not, passwords in addresses left out. */
export function printableConfig(config: Config): Record<SettingName, unknown> {
  const shown = SETTING_NAMES.map((name) => {
    const value = config[name];
    const { secret } = setting(name);
    if (secret === undefined || value === null) return [name, value];
    return [name, secret === 'whole' ? '(set)' : withoutPassword(String(value))];
  });
  return Object.fromEntries(shown) as Record<SettingName, unknown>;
}

/** Takes user and password out of every address in a text: `redis://u:p@h` -> `redis://***@h`. */
export function withoutPassword(text: string): string {
  return text.replace(/:\/\/[^\s"']*@/g, '://***@');
}

/** A value with the place it came from, for messages. */
interface Given {
  value: unknown;
  where: string;
}
type GivenSettings = Partial<Record<SettingName, Given>>;

function readFile(named: string | undefined): GivenSettings {
  const path = named ?? CONFIG_FILE;
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (named === undefined && (error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw refused(`the settings file ${path} cannot be read (${String(error)}); name one that can, or none`);
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    // The parser's message quotes the text around the fault, which may be a secret; its position is enough.
    const position = /position \d+( \(line \d+ column \d+\))?/.exec(String(error))?.[0] ?? 'its end';
    throw refused(`the settings file ${path} is not JSON, at ${position}; mend it there`);
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw refused(`the settings file ${path} must hold one JSON object of settings`);
  }
  const given: GivenSettings = {};
  for (const [name, value] of Object.entries(content)) {
    if (!isSetting(name)) throw unknown(name, path, SETTING_NAMES);
    given[name] = { value, where: `${name} in ${path}` };
  }
  return given;
}

function readEnvironment(environment: ConfigSources['environment']): GivenSettings {
  const byVariable = new Map(SETTING_NAMES.map((name) => [environmentName(name), name]));
  const given: GivenSettings = {};
  for (const [variable, value] of Object.entries(environment)) {
    if (!variable.startsWith('CARILLON_') || value === undefined) continue;
    if (variable === CONFIG_FILE_VARIABLE || variable.startsWith(TEST_PREFIX)) continue;
    const name = byVariable.get(variable);
    // Kubernetes sets CARILLON_PORT=tcp://10.0.0.1:7171 and the like for a Service called carillon: those are no settings.
    if (isServiceLink(variable, value)) continue;
    if (name === undefined) throw unknown(variable, 'the environment', [...byVariable.keys()]);
    given[name] = { value, where: variable };
  }
  return given;
}

function isServiceLink(variable: string, value: string): boolean {
  if (/^(tcp|udp|sctp):\/\//.test(value) && /_PORT(_\d+_(TCP|UDP|SCTP))?$/.test(variable)) return true;
  return /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)$/.test(variable);
}

function readFlags(flags: readonly string[]): { values: GivenSettings; file: string | undefined } {
  const byFlag = new Map<string, SettingName>();
  const options: ParseArgsOptionsConfig = { config: { type: 'string' } };
  for (const name of SETTING_NAMES) {
    const flag = flagName(name);
    if (flag === null) continue;
    byFlag.set(flag, name);
    options[flag] = { type: 'string' };
  }
  const { tokens } = parseArgs({ args: [...flags], options, strict: false, tokens: true });
  const values: GivenSettings = {};
  let file: string | undefined;
  for (const token of tokens) {
    if (token.kind !== 'option')
      throw refused(`"${flags[token.index]}" is no flag; settings are given as --name value`);
    const name = byFlag.get(token.name);
    if (name === undefined && token.name !== 'config') {
      throw unknown(
        token.rawName,
        'the flags',
        [...byFlag.keys()].map((flag) => `--${flag}`),
      );
    }
    if (token.value === undefined) throw refused(`the flag ${token.rawName} needs a value: ${token.rawName} VALUE`);
    if (name === undefined) file = token.value;
    else values[name] = { value: token.value, where: token.rawName };
  }
  return { values, file };
}

function parse(name: SettingName, given: Given): unknown {
  const definition = setting(name);
  const { value, where } = given;
  switch (definition.kind) {
    case 'integer':
      return parseInteger(definition, value, where);
    case 'list': {
      const items = typeof value === 'string' ? value.split(',').map((item) => item.trim()) : value;
      if (Array.isArray(items) && items.length > 0 && items.every((item) => typeof item === 'string' && item !== '')) {
        return items;
      }
      throw bad(definition, where, value, 'a list with at least one item (JSON array of text, or text by comma)');
    }
    case 'choice':
      if (typeof value === 'string' && definition.choices?.includes(value)) return value;
      throw bad(definition, where, value, `one of ${definition.choices?.join(', ')}`);
    case 'text':
      if (typeof value === 'string' && value !== '') return value;
      throw bad(definition, where, value, 'text that is not empty');
  }
}

function parseInteger(definition: Setting, value: unknown, where: string): number {
  const { min = 0, max = Number.MAX_SAFE_INTEGER, unit } = definition;
  const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value;
  if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max) return number;
  throw bad(definition, where, value, `a whole number from ${min} to ${max}${unit === undefined ? '' : ` (${unit})`}`);
}

/** Rules between settings. */
function checkTogether(config: Config): void {
  if (config.mode === 'embedded' && config.role !== 'all') {
    throw refused(`role is ${config.role}, but embedded mode is one process; set mode to cluster or leave role away`);
  }
  if (config.mode === 'cluster') {
    for (const name of ['mongodbUri', 'redisUrl', 'kafkaBrokers'] as const) {
      if (config[name] !== null) continue;
      throw refused(`${name} is missing; cluster mode needs it: set ${environmentName(name)} or --${flagName(name)}`);
    }
  }
  if (config.kafkaSasl !== 'none' && (config.kafkaUsername === null || config.kafkaPassword === null)) {
    const both = `${environmentName('kafkaUsername')} and ${environmentName('kafkaPassword')}`;
    throw refused(`kafkaSasl is ${config.kafkaSasl}, which needs a name and a password; set ${both}`);
  }
  if (config.apiKey !== null) {
    checkApiKey(config.apiKey);
    return;
  }
  const servesApi = config.mode === 'embedded' || config.role === 'all' || config.role === 'api';
  const open: [SettingName, string, boolean][] = [
    ['listenHost', config.listenHost, servesApi],
    ['adminHost', config.adminHost, config.adminPort !== 0],
  ];
  for (const [name, host, used] of open) {
    if (!used || isLoopback(host)) continue;
    const mend = `set apiKey (${environmentName('apiKey')}), or ${name} to 127.0.0.1`;
    throw refused(`${name} is ${host}, which others can reach, and there is no apiKey; ${mend}`);
  }
}

/** A key that is easily guessed, or that no header can carry (RFC 9110: visible ASCII), protects nothing or locks all out. */
function checkApiKey(apiKey: string): void {
  const mend = `set ${environmentName('apiKey')} to a random one, as "openssl rand -hex 24" makes it`;
  if (apiKey.length < API_KEY_CHARACTERS) {
    throw refused(`apiKey is shorter than ${API_KEY_CHARACTERS} characters; ${mend}`);
  }
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw refused(`apiKey is blank or holds spaces or other characters than visible ASCII; ${mend}`);
  }
}

/** Whether only this machine can reach an address. Names other than localhost could be anything. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

function isSetting(name: string): name is SettingName {
  return (SETTING_NAMES as readonly string[]).includes(name);
}

function refused(detail: string): CarillonError {
  return carillonError('setup-refused', detail);
}

function bad(definition: Setting, where: string, value: unknown, wanted: string): CarillonError {
  const shown = definition.secret === undefined ? ` is ${JSON.stringify(value)}, but` : '';
  return refused(`${where}${shown} must be ${wanted}`);
}

function unknown(name: string, where: string, known: readonly string[]): CarillonError {
  return refused(`${name} in ${where} is no setting; known are ${known.join(', ')}`);
}
