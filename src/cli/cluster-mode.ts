import { hostname } from 'node:os';
import { systemClock } from '../adapters/system/clock.ts';
import { type Role, type Roles, rolesService } from '../embedded/roles.ts';
import { PROGRAM_VERSION } from '../embedded/version.ts';
import { firstStart } from '../management/first-start.ts';
import { adminServer } from '../runtime/admin.ts';
import type { Config } from '../runtime/config.ts';
import type { Log } from '../runtime/log.ts';
import { createMetrics } from '../runtime/metrics.ts';
import { inOrder } from '../runtime/service.ts';
import { siblingModule } from '../runtime/sibling.ts';
import { checkClockSkew } from '../runtime/start-checks.ts';
import { steadyClock } from '../runtime/steady-clock.ts';
import { type ClusterConfig, open } from './cluster-stores.ts';
import { kafkaSecurity } from './kafka-security.ts';

/** The addresses; that they are there was checked when the settings were read. */
function clusterConfig(config: Config): ClusterConfig {
  return {
    mongodb: { uri: config.mongodbUri!, database: config.mongodbDatabase },
    redis: { url: config.redisUrl!, prefix: config.redisPrefix },
    kafka: {
      brokers: config.kafkaBrokers!,
      clientId: `carillon-${hostname()}-${process.pid}`,
      ...(config.kafkaReplication > 0 && { replicationFactor: config.kafkaReplication }),
      ...kafkaSecurity(config),
    },
  };
}

/**
 * The roles of one process over MongoDB, Redis and Kafka. Opening checks the set-up; `start` begins to work.
 *
 * @throws CarillonError `setup-refused` with the mend, `unavailable` where a server does not answer
 */
export async function openCluster(config: Config, log: Log): Promise<Roles> {
  const { clockOffsetMs } = config;
  const machine = systemClock(clockOffsetMs);
  const metrics = createMetrics(log);
  const { telemetry } = metrics;
  const servers = clusterConfig(config);
  const stores = await open(servers, telemetry);
  let ready = false;
  try {
    await checkClockSkew(machine, 'MongoDB', () => stores.serverTimeMs());
    const clock = steadyClock(machine, stores.otherClocks, telemetry);
    const { slotsPerSet, lanesPerSlot, changesPartitions, retentionMs, retentionBytes } = config;
    const triggerRetention = { retentionMs, retentionBytes };
    const deliveries = ['exactly-once', 'at-least-once'] as const;
    const installation = await firstStart(stores, clock, {
      slotsPerSet,
      lanesPerSlot,
      changesPartitions,
      deliveries,
      triggerRetention,
    });
    const allRoles: readonly Role[] = ['manager', 'worker', 'api'];
    const roles = rolesService(
      { stores, clock, telemetry, installation },
      {
        mode: 'cluster',
        roles: config.role === 'all' ? allRoles : [config.role],
        deliveries,
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
