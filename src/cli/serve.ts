import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { systemClock } from '../adapters/system/clock.ts';
import type { Embedded } from '../embedded/embedded.ts';
import type { Roles } from '../embedded/roles.ts';
import { PROGRAM_VERSION } from '../embedded/version.ts';
import { type Config, loadConfig, printableConfig } from '../runtime/config.ts';
import { createLog, type Log } from '../runtime/log.ts';
import { flagName, SETTING_NAMES, setting } from '../runtime/settings.ts';
import { stopOnSignals } from '../runtime/shutdown.ts';

const USAGE = `Usage: carillon serve [--mode embedded|cluster] [--role all|api|manager|worker] [--SETTING VALUE ...]

Runs Carillon until it is stopped (SIGTERM or Ctrl-C). Without options: engine and API in one process, data in ./data,
API on http://127.0.0.1:7171. In cluster mode it needs the addresses of MongoDB, Redis and Kafka.

Settings, as flags; also in carillon.config.json and as CARILLON_... variables:
`;

/** `carillon serve`: runs until a signal stops it; the exit code is set by the shutdown. */
export async function serveCommand(args: string[]): Promise<number> {
  if (args.includes('--help')) {
    process.stdout.write(USAGE + settingsHelp());
    return 0;
  }
  const config = loadConfig({ flags: args, environment: process.env });
  const log = createLog({ level: config.logLevel, base: { pid: process.pid, host: hostname() } });
  log.debug(printableConfig(config), 'settings');
  const running: Roles = config.mode === 'embedded' ? await embedded(config, log) : await cluster(config, log);
  stopOnSignals(running, log, systemClock());
  try {
    await running.start();
  } catch (error) {
    await running.stop();
    throw error;
  }
  const { address } = running;
  log.info({ mode: config.mode, role: config.role, ...address }, 'carillon is ready');
  if (address !== null && process.stdout.isTTY) {
    process.stderr.write(forPeople(config, address));
  }
  await new Promise<never>(() => {});
  return 0;
}

/** What a person at a terminal needs to begin with; programs read the log. */
function forPeople({ mode, dataDir }: Config, { host, port }: { host: string; port: number }): string {
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const data = mode === 'embedded' ? `, data in ${resolve(dataDir)}` : '';
  const at = port === 7171 ? '' : ` --url ${url}`;
  return (
    `\nCarillon ${PROGRAM_VERSION} runs at ${url}${data}. Ctrl-C ends it. In another terminal:\n` +
    `  npm run -s carillon -- job add tick --every 1s${at}\n` +
    `  npm run -s carillon -- tail${at}\n\n`
  );
}

// Each mode is loaded when it is asked for, so that a wrong setting is told at once.
async function embedded(config: Config, log: Log): Promise<Embedded> {
  const { openEmbedded } = await import('../embedded/embedded.ts');
  const { apiKey, wheels, misfireAfterMs, clockOffsetMs, retentionMs, retentionBytes } = config;
  const listen = { host: config.listenHost, port: config.listenPort };
  const folder = config.dataDir;
  const bounds = { misfireAfterMs, retentionMs, retentionBytes };
  return await openEmbedded({ folder, listen, apiKey, wheels, clockOffsetMs, ...bounds }, log);
}

async function cluster(config: Config, log: Log): Promise<Roles> {
  const { openCluster } = await import('./cluster-mode.ts');
  return await openCluster(config, log);
}

function settingsHelp(): string {
  return SETTING_NAMES.map((name) => {
    const flag = flagName(name);
    const { default: value, reason } = setting(name);
    const shown = value === null ? 'no default' : `default ${String(value)}`;
    return `  ${(flag === null ? `(${name})` : `--${flag}`).padEnd(24)}${reason} (${shown})\n`;
  }).join('');
}
