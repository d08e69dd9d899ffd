import { hostname } from 'node:os';
import { systemClock } from '../adapters/system/clock.ts';
import type { Embedded } from '../embedded/embedded.ts';
import { type Role, type Roles, rolesService } from '../embedded/roles.ts';
import { siblingModule } from '../embedded/sibling.ts';
import { PROGRAM_VERSION } from '../embedded/version.ts';
import { firstStart } from '../management/first-start.ts';
import { adminServer } from '../runtime/admin.ts';
import { type Config, loadConfig, printableConfig } from '../runtime/config.ts';
import { createLog, type Log } from '../runtime/log.ts';
import { createMetrics } from '../runtime/metrics.ts';
import { inOrder } from '../runtime/service.ts';
import { flagName, SETTING_NAMES, setting } from '../runtime/settings.ts';
import { stopOnSignals } from '../runtime/shutdown.ts';
import { checkClockSkew } from '../runtime/start-checks.ts';
import type { ClusterConfig } from './cluster-stores.ts';

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
    process.stderr.write(`Carillon ${PROGRAM_VERSION}: http://${address.host}:${address.port}\n`);
  }
  await new Promise<never>(() => {});
  return 0;
}

async function embedded(config: Config, log: Log): Promise<Embedded> {
  const { openEmbedded } = await import('../embedded/embedded.ts');
  const { apiKey, wheels, misfireAfterMs, clockOffsetMs, retentionMs, retentionBytes } = config;
  const listen = { host: config.listenHost, port: config.listenPort };
  const folder = config.dataDir;
  const bounds = { misfireAfterMs, retentionMs, retentionBytes };
  return await openEmbedded({ folder, listen, apiKey, wheels, clockOffsetMs, ...bounds }, log);
}

/** The addresses; that they are there was checked when the settings were read. */
function clusterConfig(config: Config): ClusterConfig {
  return {
    mongodb: { uri: config.mongodbUri!, database: config.mongodbDatabase },
    redis: { url: config.redisUrl!, prefix: config.redisPrefix },
    kafka: {
      brokers: config.kafkaBrokers!,
      clientId: `carillon-${hostname()}-${process.pid}`,
      replicationFactor: config.kafkaReplication,
    },
  };
}

async function cluster(config: Config, log: Log): Promise<Roles> {
  const { open } = await import('./cluster-stores.ts');
  const { clockOffsetMs } = config;
  const clock = systemClock(clockOffsetMs);
  const metrics = createMetrics(log);
  const { telemetry } = metrics;
  const servers = clusterConfig(config);
  const stores = await open(servers, telemetry);
  let ready = false;
  try {
    await checkClockSkew(clock, 'MongoDB', () => stores.serverTimeMs());
    const { slotsPerSet, lanesPerSlot, changesPartitions, retentionMs, retentionBytes } = config;
    const triggerRetention = { retentionMs, retentionBytes };
    const delivery = 'at-least-once';
    const installation = await firstStart(stores, clock, {
      slotsPerSet,
      lanesPerSlot,
      changesPartitions,
      delivery,
      triggerRetention,
    });
    const allRoles: readonly Role[] = ['manager', 'worker', 'api'];
    const roles = rolesService(
      { stores, clock, telemetry, installation },
      {
        mode: 'cluster',
        roles: config.role === 'all' ? allRoles : [config.role],
        deliveries: [delivery],
        version: PROGRAM_VERSION,
        metrics,
        listen: { host: config.listenHost, port: config.listenPort },
        apiKey: config.apiKey,
        wheels: config.wheels,
        misfireAfterMs: config.misfireAfterMs,
        clockOffsetMs,
        triggerRetention,
        threadStores: { module: siblingModule(import.meta.url, 'cluster-stores'), config: servers },
      },
    );
    const { adminHost: host, adminPort: port, apiKey } = config;
    const admin =
      port === 0
        ? []
        : [adminServer({ host, port, apiKey, metrics, telemetry, notReady: () => (ready ? null : 'starting') })];
    const all = inOrder('carillon', telemetry, [...admin, roles]);
    return {
      async start() {
        await all.start();
        ready = true;
      },
      async stop() {
        ready = false;
        await all.stop();
        await stores.close();
      },
      get address() {
        return roles.address;
      },
    };
  } catch (error) {
    await stores.close();
    throw error;
  }
}

function settingsHelp(): string {
  return SETTING_NAMES.map((name) => {
    const flag = flagName(name);
    const { default: value, reason } = setting(name);
    const shown = value === null ? 'no default' : `default ${String(value)}`;
    return `  ${(flag === null ? `(${name})` : `--${flag}`).padEnd(24)}${reason} (${shown})\n`;
  }).join('');
}
